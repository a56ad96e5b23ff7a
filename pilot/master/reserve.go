package master

import (
	"github.com/pilotage-grid/pilotage/task"
)

// The matrix keeps the slots of a pilot for a task that fits nowhere: it would wait
// for ever while smaller ones take each slot that becomes free.

// makeRoom takes back what was given early to pilots that keep their slots: it
// would take those that become free.
func (placing *placing) makeRoom(at *step, roster *roster) {
	for _, id := range placing.matrix.Reserved() {
		if w := roster.members[id]; w != nil {
			for _, j := range w.waiting {
				at.retract(j)
			}
		}
	}
}

// passOvertaken takes back what was given early to a pilot and has waited there
// for long while later tasks began: it has no room beside them.
func (at *step) passOvertaken(w *member) {
	for _, j := range w.waiting {
		if at.now.Sub(j.since) >= at.config.Placing.ReserveAfter && !j.isSuccessor() && w.overtakes(j) {
			at.retract(j)
		}
	}
}

// overtakes tells whether a task that was assigned after a placement has a slot.
func (w *member) overtakes(j *placement) bool {
	for _, other := range w.placements {
		if other.holding && other.order > j.order {
			return true
		}
	}
	return false
}

// ending is the most that the end of one task frees at a member.
func (w *member) ending() (most task.Resources) {
	for _, j := range w.placements {
		if j.holding {
			most = most.Max(j.need)
		}
	}
	return most
}
