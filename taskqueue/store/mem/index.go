package mem

import "github.com/tidwall/btree"

// degree of the B-trees: small nodes, since an Update copies each node that
// it changes.
const degree = 16

// index orders the records that it holds. Records are compared by fields that
// make them unique, so that one may look up with a half-filled record.
type index[T any] struct {
	tree  *btree.BTreeG[*T]
	less  func(a, b *T) bool
	holds func(*T) bool // nil holds all
}

func newIndex[T any](less func(a, b *T) bool, holds func(*T) bool) index[T] {
	options := btree.Options{NoLocks: true, Degree: degree}
	return index[T]{btree.NewBTreeGOptions(less, options), less, holds}
}

func (x index[T]) copy() index[T] {
	x.tree = x.tree.Copy()
	return x
}

// replace moves from the record before (nil: none) to the one after (nil:
// none).
func (x index[T]) replace(before, after *T) {
	wasIn := before != nil && (x.holds == nil || x.holds(before))
	isIn := after != nil && (x.holds == nil || x.holds(after))
	if wasIn && (!isIn || x.less(before, after) || x.less(after, before)) {
		x.tree.Delete(before)
	}
	if isIn {
		x.tree.Set(after)
	}
}

// from visits the records from pivot on, in order, until visit returns false.
func (x index[T]) from(pivot *T, visit func(*T) bool) { x.tree.Ascend(pivot, visit) }

// table is a map in key order.
type table[K ~string | ~uint32 | ~uint64, V any] struct{ tree *btree.Map[K, V] }

func newTable[K ~string | ~uint32 | ~uint64, V any]() table[K, V] {
	return table[K, V]{btree.NewMap[K, V](degree)}
}

func (t table[K, V]) copy() table[K, V] { return table[K, V]{t.tree.Copy()} }

func (t table[K, V]) get(key K) (V, bool) { return t.tree.Get(key) }

// set returns what was there before.
func (t table[K, V]) set(key K, value V) V {
	before, _ := t.tree.Set(key, value)
	return before
}

// remove returns what was there before.
func (t table[K, V]) remove(key K) V {
	before, _ := t.tree.Delete(key)
	return before
}

// each visits all entries in the order of keys until visit returns false.
func (t table[K, V]) each(visit func(K, V) bool) { t.tree.Scan(visit) }

// from visits the entries from key on until visit returns false.
func (t table[K, V]) from(key K, visit func(K, V) bool) { t.tree.Ascend(key, visit) }
