package mem

import "github.com/tidwall/btree"

// directory finds values by key and has no order. That of a store in place is
// a plain map, which takes less time and memory than a tree.
type directory[K ~string, V any] struct {
	tree *btree.Map[K, V]
	hash map[K]V // in place
}

func newDirectory[K ~string, V any](inPlace bool) directory[K, V] {
	if inPlace {
		return directory[K, V]{hash: make(map[K]V)}
	}
	return directory[K, V]{tree: btree.NewMap[K, V](degree)}
}

func (d directory[K, V]) copy() directory[K, V] { return directory[K, V]{tree: d.tree.Copy()} }

func (d directory[K, V]) get(key K) (value V, ok bool) {
	if d.hash != nil {
		value, ok = d.hash[key]
		return value, ok
	}
	return d.tree.Get(key)
}

func (d directory[K, V]) set(key K, value V) {
	if d.hash != nil {
		d.hash[key] = value
		return
	}
	d.tree.Set(key, value)
}

// remove returns what was there before.
func (d directory[K, V]) remove(key K) V {
	if d.hash != nil {
		before := d.hash[key]
		delete(d.hash, key)
		return before
	}
	before, _ := d.tree.Delete(key)
	return before
}
