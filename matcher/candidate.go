package matcher

// candidate is a pair of pilot and task that may be taken next. It repeats
// what orders it, since a heap of many pairs compares them all the time.
type candidate struct {
	rank   float64
	order  uint64
	no     uint64
	cell   *cell
	level  int32
	bidder int32 // bidders stand in the order of pilot ids
	group  int32 // that it stands for, -1 for an exception
}

func newCandidate(c *cell, rank float64, bidder, group int) candidate {
	return candidate{
		rank: rank, order: c.Order, no: c.No, cell: c,
		level: int32(c.level()), bidder: int32(bidder), group: int32(group),
	}
}

// before is the order in which pairs are taken; see Greedy.
func (c *candidate) before(other *candidate) bool {
	switch {
	case c.level != other.level:
		return c.level > other.level
	case c.rank != other.rank:
		return c.rank > other.rank
	case c.order != other.order:
		return c.order < other.order
	case c.no != other.no:
		return c.no < other.no
	}
	return c.bidder < other.bidder
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
