package master

import (
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
)

// The matrix keeps the slots of a pilot for a task that fits nowhere: it would wait
// for ever while smaller ones take each slot that becomes free (DESIGN section 6).

// waited tells whether a task has been ready for long.
func (placing *placing) waited(at *step, list *list, no uint64) bool {
	h := list.owner[no]
	return h != nil && !h.readySince.IsZero() && at.now.Sub(h.readySince) >= at.config.Placing.ReserveAfter
}

// expected is how long a task is expected to run.
func (placing *placing) expected(list *list, no uint64) time.Duration {
	if h := list.owner[no]; h != nil {
		return placing.durations.Expected(&h.Task)
	}
	return matcher.UnknownRun
}

// occupancy is what holds the slots of a pilot. What a plan has reserved runs what its
// plan says.
func (placing *placing) occupancy(at *step, roster *roster, replicas *replication, id task.PilotID) (found matcher.Occupancy, ok bool) {
	w := roster.members[id]
	if w == nil || !w.described || w.health != health.Fit || w.draining || replicas.reserved[id] {
		return found, false
	}
	found.Total, found.Slots = w.total.resources, w.total.slots
	if !w.ends.IsZero() {
		found.Lifetime = max(1, w.ends.Sub(at.now))
	}
	for _, j := range w.inOrder() {
		if j.holding {
			found.Running = append(found.Running, matcher.Occupant{Need: j.need, Left: placing.leftOf(at, j)})
		}
	}
	return found, true
}

// leftOf is how much longer a placement is expected to hold its slot.
func (placing *placing) leftOf(at *step, j *placement) time.Duration {
	expected := matcher.UnknownRun
	if j.held != nil {
		expected = placing.durations.Expected(&j.held.Task)
	}
	return max(0, j.remaining(expected, at.now))
}

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
