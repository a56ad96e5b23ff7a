package matcher

import (
	"cmp"

	"github.com/pilotage-grid/pilotage/task"
)

// candidate is a pair of pilot and task that may be taken next.
type candidate struct {
	level  int
	rank   float64
	cell   *cell
	pilot  task.PilotID
	bidder int
	group  int // that it stands for, -1 for an exception
}

// before is the order in which pairs are taken; see Greedy.
func (c *candidate) before(other *candidate) bool {
	switch {
	case c.level != other.level:
		return c.level > other.level
	case c.rank != other.rank:
		return c.rank > other.rank
	}
	return cmp.Or(
		cmp.Compare(c.cell.Order, other.cell.Order),
		cmp.Compare(c.cell.No, other.cell.No),
		cmp.Compare(c.pilot, other.pilot),
	) < 0
}

// candidates is a heap with the pair to take next in front.
type candidates []candidate

func (q candidates) heapify() {
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
}

// replaceFirst puts another pair in the place of the first.
func (q candidates) replaceFirst(c candidate) {
	q[0] = c
	q.sink(0)
}

func (q *candidates) dropFirst() {
	last := len(*q) - 1
	(*q)[0] = (*q)[last]
	*q = (*q)[:last]
	if last > 0 {
		q.sink(0)
	}
}

func (q candidates) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(q) {
			return
		}
		if right := child + 1; right < len(q) && q[right].before(&q[child]) {
			child = right
		}
		if !q[child].before(&q[i]) {
			return
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
}
