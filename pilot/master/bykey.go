package master

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// byKey visits what a map has, in the order of its keys, as it was at the beginning.
// What is gone when its turn comes is left out.
func byKey[K cmp.Ordered, V any](all map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if value, there := all[key]; there && !yield(key, value) {
				return
			}
		}
	}
}
