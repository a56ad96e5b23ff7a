package master

import (
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
)

// outlook tells the matrix what is expected of pilots and tasks while it is
// solved.
type outlook struct {
	at       *step
	roster   *roster
	list     *list
	placing  *placing
	replicas *replication
}

var _ matcher.Foresight = outlook{}

func (site *site) outlook(at *step) outlook {
	return outlook{at, &site.roster, &site.list, &site.placing, &site.replication}
}

// Now satisfies matcher.Foresight.
func (o outlook) Now() time.Time { return o.at.now }

// Waited satisfies matcher.Foresight. What the queue has chosen for a pilot has waited
// there.
func (o outlook) Waited(no uint64) bool {
	h := o.list.owner[no]
	return h != nil && !h.readySince.IsZero() && (o.at.own.on || o.at.now.Sub(h.readySince) >= o.at.config.Placing.ReserveAfter)
}

// Longest satisfies matcher.Foresight.
func (o outlook) Longest(no uint64) time.Duration { return o.placing.longest(o.list.owner[no]) }

// Expected satisfies matcher.Foresight.
func (o outlook) Expected(no uint64) time.Duration { return o.placing.left(o.list.owner[no], 0) }

// Occupancy satisfies matcher.Foresight. What a plan has reserved runs what its plan
// says.
func (o outlook) Occupancy(id task.PilotID) (found matcher.Occupancy, ok bool) {
	w := o.roster.members[id]
	if w == nil || !w.described || o.roster.health(w) != health.Fit || w.draining || o.replicas.reserved[id] {
		return found, false
	}
	found.Total, found.Slots = w.total.resources, w.total.slots
	if !w.ends.IsZero() {
		found.Lifetime = max(1, w.ends.Sub(o.at.now))
	}
	for _, j := range w.inOrder() {
		if j.holding {
			found.Running = append(found.Running, o.placing.occupant(o.at, j))
		}
	}
	for _, j := range w.waiting {
		found.Given = append(found.Given, o.placing.left(j.held, 0))
	}
	return found, true
}

// longest is how long a task may run.
func (placing *placing) longest(h *held) time.Duration {
	if h == nil {
		return matcher.UnknownRun
	}
	return placing.durations.Longest(&h.Task)
}

// left is how much longer a task is expected to run that has run for so long.
func (placing *placing) left(h *held, ran time.Duration) time.Duration {
	if h == nil {
		return (matcher.UnknownRun - ran).Abs()
	}
	return placing.durations.Left(&h.Task, ran)
}

// occupant is a placement as what holds its slot.
func (placing *placing) occupant(at *step, j *placement) matcher.Occupant {
	longest, ran := placing.longest(j.held), time.Duration(0)
	if j.phase != assigned {
		ran = at.now.Sub(j.began)
	}
	return matcher.Occupant{Need: j.need, Left: placing.left(j.held, ran), Longest: (longest - ran).Abs()}
}

// localityWait is for how long tasks are left to pilots where they start sooner.
// Rounds of a fixed period are those of 004, and who works for itself has nobody to
// leave tasks to.
func (placing *placing) localityWait(at *step) time.Duration {
	placing.choose(at)
	if at.settings.RoundEvery > 0 || at.own.on || !placing.solving.choice.Waits() {
		return 0
	}
	return at.settings.LocalityWait
}

// leastLook is the least time between two looks of slots that have left tasks to
// others.
const leastLook = 20 * time.Millisecond

// lookAgain has the matrix solved again after a while in which nothing else may
// happen: pilots may take longer than expected.
func (placing *placing) lookAgain(at *step, after time.Duration) {
	if due := at.now.Add(max(after, leastLook)); placing.waitDue.IsZero() || due.Before(placing.waitDue) {
		placing.waitDue = due
	}
}

// passWaits has slots looked at again that have left tasks to others.
func (placing *placing) passWaits(at *step) {
	if !placing.waitDue.IsZero() && !at.now.Before(placing.waitDue) {
		placing.waitDue, placing.unsolved = time.Time{}, true
	}
}
