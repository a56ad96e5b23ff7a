package taskqueue

import (
	"cmp"
	"maps"
	"slices"
)

// Quotas are how many more tasks of each class a hand-out may take.
type Quotas struct {
	left map[ClassID]int
	all  int
}

// NewQuotas returns quotas to take from.
func NewQuotas(quotas map[ClassID]int) Quotas {
	q := Quotas{left: make(map[ClassID]int, len(quotas))}
	for class, n := range quotas {
		if n > 0 {
			q.left[class] = n
			q.all += n
		}
	}
	return q
}

// Take takes up to n of a class, and returns how many.
func (q *Quotas) Take(class ClassID, n int) int {
	n = min(n, q.left[class])
	if n > 0 {
		q.left[class] -= n
		q.all -= n
	}
	return n
}

// Used tells whether nothing can be taken any more.
func (q *Quotas) Used() bool { return q.all == 0 }

// fewClasses are asked for one by one: of many READY tasks theirs may be the last.
const fewClasses = 32

// inOrder returns READY tasks of some classes that are free, within their quotas, highest
// priority and oldest first: enough for the limit beside those that are chosen already,
// if there are. Of many classes most have nothing to give, so all are looked at together
// in the order of their tasks, unless too many others come between.
func (h *handing) inOrder(quotas map[ClassID]int, by Instant, limit, chosen int, free func(*TaskState) bool) (found []*TaskState) {
	if limit <= 0 {
		return nil
	}
	if len(quotas) > fewClasses {
		states, complete, err := h.Tasks().ReadyOf(quotas, by, limit+chosen, 4*(limit+chosen)+1000)
		check(err)
		if found = h.free(states, free); len(found) >= limit || complete && len(states) < limit+chosen {
			return found
		}
	}
	return h.classByClass(quotas, by, free)
}

// free holds states and returns those that are free.
func (h *handing) free(states []TaskState, free func(*TaskState) bool) (found []*TaskState) {
	h.tasks.hold(states)
	for k := range states {
		if free(&states[k]) {
			found = append(found, h.tasks.held[states[k].ID])
		}
	}
	return found
}

// classByClass returns the free ones of each class's first tasks, as many as its quota.
func (h *handing) classByClass(quotas map[ClassID]int, by Instant, free func(*TaskState) bool) (found []*TaskState) {
	for _, class := range slices.Sorted(maps.Keys(quotas)) {
		found = append(found, h.free(read(h.Tasks().ReadyIn(class, by, quotas[class])), free)...)
	}
	slices.SortFunc(found, func(x, y *TaskState) int {
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(x.Seq, y.Seq))
	})
	return found
}
