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

// Expected satisfies matcher.Foresight.
func (o outlook) Expected(no uint64) time.Duration { return o.placing.expected(o.list.owner[no]) }

// Occupancy satisfies matcher.Foresight. What a plan has reserved runs what its plan
// says.
func (o outlook) Occupancy(id task.PilotID) (found matcher.Occupancy, ok bool) {
	return o.occupancy(id, o.placing.leftOf, o.placing.expected)
}

// likely is the same by the mean of what ran lately.
func (o outlook) likely(id task.PilotID) (matcher.Occupancy, bool) {
	return o.occupancy(id, o.placing.likelyLeft, func(h *held) time.Duration { return o.placing.likely(h, 0) })
}

func (o outlook) occupancy(id task.PilotID, left func(*step, *placement) time.Duration, run func(*held) time.Duration) (found matcher.Occupancy, ok bool) {
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
			found.Running = append(found.Running, matcher.Occupant{Need: j.need, Left: left(o.at, j)})
		}
	}
	for _, j := range w.waiting {
		found.Given = append(found.Given, run(j.held))
	}
	return found, true
}

// expected is how long a task is expected to run.
func (placing *placing) expected(h *held) time.Duration {
	if h == nil {
		return matcher.UnknownRun
	}
	return placing.durations.Expected(&h.Task)
}

// leftOf is how much longer a placement is expected to hold its slot. A task that
// takes longer is expected to take as much longer again: who knows, but the longer
// the worse.
func (placing *placing) leftOf(at *step, j *placement) time.Duration {
	left := j.remaining(placing.expected(j.held), at.now)
	return max(left, -left)
}

// likely is how much longer a task runs in the mean that has run for so long.
func (placing *placing) likely(h *held, ran time.Duration) time.Duration {
	if h == nil {
		return (matcher.UnknownRun - ran).Abs()
	}
	return placing.durations.Left(&h.Task, ran)
}

func (placing *placing) likelyLeft(at *step, j *placement) time.Duration {
	return placing.likely(j.held, j.ran(at.now))
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
