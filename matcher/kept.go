package matcher

import "slices"

// keptMost is for how many waiting tasks at the most a pilot counts as the one
// that will run them: with more, others would wait for it in vain.
const keptMost = 4

// keepersMost is from how many pilots on a task's inputs are common: one of
// them is free soon anyway, or nobody has an advantage.
const keepersMost = 8

// raises tells whether a pilot ranks a task higher than it would without
// anything of its own, which is mostly an input in its cache.
func (r *pilotRow) raises(e *exception) bool {
	at, found := r.find(e.cell.Class)
	return found && r.answers[at].Feasible && !r.answers[at].PerTask && e.clause == "" &&
		e.rank > r.answers[at].Base+e.cell.EntryBase
}

// weigh notes at the task whether the pilot raises it.
func (r *pilotRow) weigh(e *exception) {
	if raised := r.raises(e); raised != e.raised {
		r.setRaised(e, raised)
	}
}

// unweigh is for an exception that is about to go.
func (r *pilotRow) unweigh(e *exception) {
	if e.raised {
		r.setRaised(e, false)
	}
}

func (r *pilotRow) setRaised(e *exception, raised bool) {
	c, by := e.cell, 1
	if e.raised = raised; raised {
		c.keepers = append(c.keepers, r)
	} else {
		by = -1
		at := slices.Index(c.keepers, r)
		last := len(c.keepers) - 1
		c.keepers[at], c.keepers[last] = c.keepers[last], nil
		c.keepers = c.keepers[:last]
	}
	if c.ready {
		r.keeps += by
	}
}

// setReady counts the task to those that wait, or no longer.
func (c *cell) setReady(ready bool) {
	if c.ready == ready {
		return
	}
	by := -1
	if c.ready = ready; ready {
		by = 1
	}
	for _, row := range c.keepers {
		row.keeps += by
	}
}

// kept tells whether a task is not to be given early to a pilot that does not
// raise it: few pilots do, and one of them has so few of such tasks waiting
// that it will soon come to this one. Given away early it would leave that one
// to take another pilot's task in turn, and so on. For slots that are free see
// Matrix.left.
func (c *cell) kept() bool {
	if c.starving || c.reservation != nil || len(c.keepers) > keepersMost {
		return false
	}
	return slices.ContainsFunc(c.keepers, func(row *pilotRow) bool { return row.keeps <= keptMost })
}
