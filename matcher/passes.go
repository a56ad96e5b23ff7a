package matcher

import (
	"cmp"
	"slices"
)

// PassLimit is how often a task may be passed over before it goes first. A
// task has been passed over once when as many younger tasks of no higher
// priority were placed on pilots that could run it as there are such pilots:
// each of them has then preferred another task, on average. Counting single
// placements instead would make every task of a large site urgent within
// seconds and put age in the place of rank.
const PassLimit = 10

// passCounter collects placements until it is worth counting whom they have
// passed over, because counting looks at every ready task.
type passCounter struct {
	limit   int    // PassLimit
	every   int    // placements to collect; 0: an eighth of the pilots
	placed  uint64 // placements of the site so far
	pending []placement
}

// placement is an assignment as those see it who were passed over.
type placement struct {
	row      *pilotRow
	order    uint64
	priority int
	serial   uint64 // of the site's placements, from 1
}

func (p *passCounter) note(row *pilotRow, c *cell) {
	p.placed++
	p.pending = append(p.pending, placement{row, c.Order, c.Priority, p.placed})
}

// countPasses moves tasks that were passed over too often to the front of
// their class.
func (m *Matrix) countPasses() {
	pending := m.passes.pending
	if len(pending) == 0 || len(pending) < cmp.Or(m.passes.every, len(m.rows)/8) {
		return
	}
	first := pending[0].serial
	slices.SortFunc(pending, func(a, b placement) int { return cmp.Compare(b.order, a.order) })
	relevant := make([]placement, 0, len(pending))
	for _, block := range m.classes {
		if len(block.ready) == 0 {
			continue
		}
		relevant = relevant[:0]
		for _, p := range pending {
			if p.row.canRun(block.no) {
				relevant = append(relevant, p)
			}
		}
		if len(relevant) > 0 {
			m.passOver(block, relevant, first)
		}
	}
	clear(pending)
	m.passes.pending = pending[:0]
}

// passOver counts for the ready tasks of a class; placed are the placements
// on pilots that can run it, youngest task first, numbered from first on.
func (m *Matrix) passOver(block *block, placed []placement, first uint64) {
	highest := placed[0].priority
	for _, p := range placed {
		highest = max(highest, p.priority)
	}
	limit := m.passes.limit * max(1, block.feasible)
	moved := false
	for _, c := range block.ready {
		if placed[0].order <= c.Order {
			continue
		}
		before, _ := slices.BinarySearchFunc(placed, c.Order, func(p placement, order uint64) int {
			return cmp.Compare(order, p.order)
		})
		if highest <= c.Priority && c.since < first {
			c.passes += before
		} else {
			c.passes += passed(placed[:before], c)
		}
		moved = moved || !c.starving && c.passes >= limit
	}
	if !moved {
		return
	}
	for _, c := range block.ready {
		c.starving = c.starving || c.passes >= limit
	}
	slices.SortFunc(block.ready, byPreference)
}

// passed counts the placements of younger tasks that came while c was ready
// and did not have the right to go first.
func passed(younger []placement, c *cell) (count int) {
	for _, p := range younger {
		if p.priority <= c.Priority && p.serial > c.since {
			count++
		}
	}
	return count
}

// canRun tells whether the pilot has accepted the class.
func (r *pilotRow) canRun(class uint32) bool {
	at, found := r.find(class)
	return found && r.answers[at].Feasible
}
