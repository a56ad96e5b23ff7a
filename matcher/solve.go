package matcher

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// Solver chooses which ready tasks go to which places, free slots of the
// whole site before prefill. It reads the matrix and changes nothing.
type Solver func(*Matrix) []Assignment

// Solve lets a solver choose and takes the result into account: assigned
// tasks are no longer ready, and the pilots' places are deducted. The result
// is in the order of choice.
func (m *Matrix) Solve(solver Solver) []Assignment {
	for _, row := range m.rows {
		if row.places.FreeSlots > 0 || row.places.Prefill > 0 {
			row.forgetGone()
		}
	}
	assignments := solver(m)
	touched := make(map[*block]bool)
	for _, a := range assignments {
		c := m.tasks[a.No]
		c.ready = false
		touched[c.block] = true
		at, _ := m.findPilot(a.Pilot)
		m.rows[at].places.take(c.block.need, a.Prefill)
	}
	for block := range touched {
		block.ready = slices.DeleteFunc(block.ready, func(c *cell) bool { return !c.ready })
	}
	m.countPasses(assignments)
	return assignments
}

// offers tells whether a task of this need can be taken. A prefilled task
// waits for its resources, so it needs a place only.
func (p *Places) offers(need task.Resources, prefill bool) bool {
	if prefill {
		return p.Prefill > 0
	}
	return p.FreeSlots > 0 && p.Free.Fits(need)
}

func (p *Places) take(need task.Resources, prefill bool) {
	if prefill {
		p.Prefill--
		return
	}
	p.FreeSlots--
	p.Free = p.Free.Sub(need)
}

// placement is an assignment as those see it who were passed over.
type placement struct {
	row      *pilotRow
	order    uint64
	priority int
}

// countPasses notes who was passed over, and moves tasks that were passed
// over too often to the front of their class.
func (m *Matrix) countPasses(assignments []Assignment) {
	if len(assignments) == 0 {
		return
	}
	placed := make([]placement, len(assignments))
	for i, a := range assignments {
		at, _ := m.findPilot(a.Pilot)
		c := m.tasks[a.No]
		placed[i] = placement{m.rows[at], c.Order, c.Priority}
	}
	slices.SortFunc(placed, func(a, b placement) int { return cmp.Compare(b.order, a.order) })
	relevant := make([]placement, 0, len(placed))
	for _, block := range m.classes {
		if len(block.ready) == 0 {
			continue
		}
		relevant = relevant[:0]
		for _, p := range placed {
			if p.row.canRun(block.no) {
				relevant = append(relevant, p)
			}
		}
		m.passOver(block, relevant)
	}
}

// passOver counts for the ready tasks of a class; placed are the placements
// on pilots that can run it, youngest first.
func (m *Matrix) passOver(block *block, placed []placement) {
	if len(placed) == 0 {
		return
	}
	highest := slices.MaxFunc(placed, func(a, b placement) int { return cmp.Compare(a.priority, b.priority) }).priority
	limit := m.passLimit * max(1, block.feasible)
	moved := false
	for _, c := range block.ready {
		before, _ := slices.BinarySearchFunc(placed, c.Order, func(p placement, order uint64) int {
			return cmp.Compare(order, p.order)
		})
		younger := placed[:before]
		if highest <= c.Priority {
			c.passes += len(younger)
		} else {
			for _, p := range younger {
				if p.priority <= c.Priority {
					c.passes++
				}
			}
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

// canRun tells whether the pilot has accepted the class.
func (r *pilotRow) canRun(class uint32) bool {
	at, found := r.find(class)
	return found && r.answers[at].Feasible
}
