package matcher

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// Solver chooses which ready tasks go to which places, free slots of the
// whole site before prefill. It changes nothing that another solver could see.
type Solver func(*Matrix) []Assignment

// Solve lets a solver choose and takes the result into account: assigned
// tasks are no longer ready, and the pilots' places are deducted. The result
// is in the order of choice.
func (m *Matrix) Solve(solver Solver) []Assignment {
	m.reserve()
	m.lookAgain = 0
	for _, row := range m.rows {
		if row.places.FreeSlots > 0 || row.places.Prefill > 0 {
			row.forgetGone()
		}
	}
	assignments := solver(m)
	touched := make(map[*block]bool)
	for _, a := range assignments {
		c := m.tasks[a.No]
		at, _ := m.findPilot(a.Pilot)
		m.passes.note(m.rows[at], c)
		switch {
		case !c.ready: // it follows what runs, and has no place
			continue
		case len(assignments) <= fewAssignments:
			c.block.remove(c)
		default:
			touched[c.block] = true
		}
		c.ready = false
		m.rows[at].places.take(c.block.need, a.Prefill)
	}
	for block := range touched {
		block.ready = slices.DeleteFunc(block.ready, func(c *cell) bool { return !c.ready })
	}
	m.countPasses()
	return assignments
}

// fewAssignments are taken out one by one, so that serving one pilot does not
// cost a look at every ready task.
const fewAssignments = 8

// offers tells whether a task of this need can be taken. A prefilled task
// waits for the resources of one that runs.
func (p *Places) offers(need task.Resources, prefill bool) bool {
	if prefill {
		return p.Prefill > 0 && (p.Ending == task.Resources{} || p.Free.Add(p.Ending).Fits(need))
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
