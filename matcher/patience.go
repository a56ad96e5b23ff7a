package matcher

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// Patience tells how long free slots leave tasks to pilots that have their
// inputs. It is asked anew by every solution, about few pilots.
type Patience interface {
	// Soon is how many waiting tasks a pilot comes to so soon that they are
	// left to it.
	Soon(task.PilotID) int
	// Waits tells whether a pilot's free slots leave all such tasks to others;
	// else only fresh ones, as they have been free for long.
	Waits(task.PilotID) bool
	// Fresh tells whether a task has not been ready for long.
	Fresh(no uint64) bool
}

// TurnsWaitedFor is how many tasks of a slot are waited for, or left to a site,
// from the one that the slot starts next: the more are left to one, the longer
// others stand idle.
const TurnsWaitedFor = 2

// SetPatience has Greedy and Exact leave tasks to the pilots that keep them;
// with nil, as in a new matrix, a free slot waits for nobody.
func (m *Matrix) SetPatience(p Patience) { m.patience = p }

// Raises tells whether a pilot ranks a task higher than it would without
// anything of its own, which is mostly an input in its cache.
func (m *Matrix) Raises(pilot task.PilotID, no uint64) bool {
	c, at, found := m.tasks[no], 0, false
	if at, found = m.findPilot(pilot); c == nil || !found {
		return false
	}
	return slices.Contains(c.keepers, m.rows[at])
}

// RaisedElsewhere tells whether a pilot other than the given one raises a task.
func (m *Matrix) RaisedElsewhere(pilot task.PilotID, no uint64) bool {
	c := m.tasks[no]
	return c != nil && slices.ContainsFunc(c.keepers, func(row *pilotRow) bool { return row.pilot != pilot })
}

// Keeps is the number of ready tasks that a pilot raises.
func (m *Matrix) Keeps(pilot task.PilotID) int {
	if at, found := m.findPilot(pilot); found {
		return m.rows[at].keeps
	}
	return 0
}

// left tells whether a task is left to one of few pilots that raise it: it is
// among those that this one takes next, and comes to soon.
func (m *Matrix) left(c *cell) bool {
	if c.starving || c.reservation != nil || len(c.keepers) > keepersMost {
		return false
	}
	return slices.ContainsFunc(c.keepers, func(row *pilotRow) bool {
		return slices.Contains(m.line(row), c)
	})
}

// line is what a pilot takes next of the ready tasks that it raises, as many as
// it comes to soon.
func (m *Matrix) line(row *pilotRow) []*cell {
	if row.lined == m.runs {
		return row.line
	}
	row.lined, row.line = m.runs, row.line[:0]
	soon := m.patience.Soon(row.pilot)
	if soon <= 0 {
		return row.line
	}
	var own []candidate
	for i := range row.exceptions {
		if e := &row.exceptions[i]; e.raised && e.cell.ready {
			own = append(own, newCandidate(e.cell, e.rank, 0, -1))
		}
	}
	slices.SortFunc(own, func(a, b candidate) int {
		if a.before(&b) {
			return -1
		}
		return 1
	})
	for _, next := range own[:min(soon, len(own))] {
		row.line = append(row.line, next.cell)
	}
	return row.line
}
