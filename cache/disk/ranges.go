package disk

import "slices"

// ranges is what has been written of a file: disjoint half-open intervals in
// order. Parts may arrive from several sources in any order and twice; a hole
// would otherwise look like zeros.
type ranges []interval

type interval struct{ from, to int64 }

// add notes that [from, to) was written.
func (r *ranges) add(from, to int64) {
	if from >= to {
		return
	}
	// The intervals that touch [from, to) are first..last-1.
	first, _ := slices.BinarySearchFunc(*r, from, func(i interval, from int64) int {
		if i.to < from {
			return -1
		}
		return 1
	})
	last := first
	for last < len(*r) && (*r)[last].from <= to {
		from, to = min(from, (*r)[last].from), max(to, (*r)[last].to)
		last++
	}
	*r = slices.Replace(*r, first, last, interval{from, to})
}

// contiguous returns how many bytes from the beginning have been written
// without a hole, and whether nothing lies beyond them.
func (r ranges) contiguous() (size int64, whole bool) {
	switch {
	case len(r) == 0:
		return 0, true
	case r[0].from > 0:
		return 0, false
	default:
		return r[0].to, len(r) == 1
	}
}
