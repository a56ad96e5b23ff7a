package mem

import (
	"bytes"

	"github.com/tidwall/btree"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// order lists tasks by a key that is unique among them. Keys stand in the tree
// itself: rows need not be looked at to find a place, and may be changed in
// place.
type order[K comparable] struct {
	tree    *btree.BTreeG[listed[K]]
	less    func(a, b listed[K]) bool
	inPlace bool
}

type listed[K comparable] struct {
	key K
	row *taskRow
}

func newOrder[K comparable](inPlace bool, less func(a, b listed[K]) bool) order[K] {
	options := btree.Options{NoLocks: true, Degree: degree}
	return order[K]{btree.NewBTreeGOptions(less, options), less, inPlace}
}

func (o order[K]) copy() order[K] {
	o.tree = o.tree.Copy()
	return o
}

// move lists a row by the key after, if it is in, in the place of the key
// before, if it was in.
func (o order[K]) move(before place[K], after place[K], row *taskRow) {
	stays := before.in && after.in && before.key == after.key
	if before.in && !stays {
		o.tree.Delete(listed[K]{key: before.key})
	}
	if after.in && !(stays && o.inPlace) {
		o.tree.Set(listed[K]{after.key, row})
	}
}

// from visits the tasks from a key on, in order, until visit returns false.
func (o order[K]) from(key K, visit func(K, *taskRow) bool) {
	o.tree.Ascend(listed[K]{key: key}, func(l listed[K]) bool { return visit(l.key, l.row) })
}

// rank counts the tasks before a key, by bisection over positions.
func (o order[K]) rank(key K) int {
	low, high := 0, o.tree.Len()
	for low < high {
		middle := int(uint(low+high) >> 1)
		if item, _ := o.tree.GetAt(middle); o.less(item, listed[K]{key: key}) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// place is where an order has a task, or that it does not have it.
type place[K comparable] struct {
	key K
	in  bool
}

// ageKey lists by workflow and age. States are no part of it: a task changes its
// state far more often than somebody lists by state, which therefore may look at
// the whole workflow, however few it lists.
type ageKey struct {
	workflow uint64 // its number
	seq      uint64
}

func lessByAge(a, b listed[ageKey]) bool {
	if a.key.workflow != b.key.workflow {
		return a.key.workflow < b.key.workflow
	}
	return a.key.seq < b.key.seq
}

// readyKey lists READY tasks by class, highest priority first, and age.
type readyKey struct {
	class    taskqueue.ClassID
	priority int
	seq      uint64
}

func lessReady(a, b listed[readyKey]) bool {
	if a.key.class != b.key.class {
		return a.key.class < b.key.class
	}
	if a.key.priority != b.key.priority {
		return a.key.priority > b.key.priority
	}
	return a.key.seq < b.key.seq
}

// backoffKey lists READY tasks that were to wait, earliest first.
type backoffKey struct {
	notBefore taskqueue.Instant
	seq       uint64
}

func lessBackoff(a, b listed[backoffKey]) bool {
	if a.key.notBefore != b.key.notBefore {
		return a.key.notBefore < b.key.notBefore
	}
	return a.key.seq < b.key.seq
}

// leaseKey lists LEASED tasks by lease and age.
type leaseKey struct {
	lease task.LeaseID
	seq   uint64
}

func lessLeased(a, b listed[leaseKey]) bool {
	if a.key.lease != b.key.lease {
		return a.key.lease < b.key.lease
	}
	return a.key.seq < b.key.seq
}

// memoKey lists DONE tasks that have a memo key by workflow, that key and age.
type memoKey struct {
	workflow uint64 // its number
	memo     task.Digest
	seq      uint64
}

func lessMemorable(a, b listed[memoKey]) bool {
	if a.key.workflow != b.key.workflow {
		return a.key.workflow < b.key.workflow
	}
	if order := bytes.Compare(a.key.memo[:], b.key.memo[:]); order != 0 {
		return order < 0
	}
	return a.key.seq < b.key.seq
}
