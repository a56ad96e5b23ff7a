package worker

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// unjudged is what the queue has not acknowledged: it is told again and again, by
// the master or, while there is none, by this pilot itself.
type unjudged struct {
	outcomes map[task.AttemptID]task.Outcome
	stored   map[task.OutputID]task.Stored
	repeat   time.Time     // when the master is told again
	patient  time.Duration // after so long without an answer
	delivery delivery
}

// delivery is how outcomes go to the queue while no master takes them.
type delivery struct {
	due   time.Time     // zero: not at all
	last  uint64        // counter of the last attempt that the queue was told of
	pause time.Duration // at the most, until the next one
}

// mostPatient is the longest time between two repeats.
const mostPatient = 10 * time.Minute

func (u *unjudged) none() bool { return len(u.outcomes)+len(u.stored) == 0 }

// hasURL notes that an output is on a storage element.
func (u *unjudged) hasURL(stored task.Stored) {
	u.stored[stored.Output()] = stored
	for i, output := range u.outcomes[stored.Attempt].Outputs {
		if output.LFN == stored.LFN {
			u.outcomes[stored.Attempt].Outputs[i].URL = stored.URL
		}
	}
}

// has tells whether the outcome of an attempt waits for its verdict.
func (u *unjudged) has(attempt task.AttemptID) bool {
	_, has := u.outcomes[attempt]
	return has
}

// expectFirst is to be called before something is added.
func (u *unjudged) expectFirst(at *step) {
	if u.none() {
		u.expectAnswer(at)
	}
}

// expectAnswer has what the master was told repeated when no answer comes: a
// message can be lost with a connection. Any answer begins the wait anew.
func (u *unjudged) expectAnswer(at *step) {
	u.patient = at.config.RepeatAfter
	u.repeat = at.now.Add(u.patient)
}

// repeatDue is when what is not acknowledged is told again; zero is never.
func (u *unjudged) repeatDue() time.Time {
	if u.none() {
		return time.Time{}
	}
	return u.repeat
}

// passRepeat tells the master again what it has not acknowledged, ever more
// rarely: the queue may be away.
func (u *unjudged) passRepeat(at *step) {
	if !at.passed(u.repeatDue()) {
		return
	}
	u.patient = min(2*u.patient, mostPatient)
	u.repeat = at.now.Add(u.patient)
	u.tellAll(at)
}

// tellAll has the master told everything.
func (u *unjudged) tellAll(at *step) {
	at.news.Outcomes, at.news.Stored = u.pendingOutcomes(), u.pendingStored()
	at.soon(0)
}

// deliverAfter has the queue told after a while, since there is no master.
func (u *unjudged) deliverAfter(at *step) {
	u.delivery = delivery{due: at.now.Add(at.config.ResendAfter), pause: at.config.ResendAfter}
}

// passDelivery takes outcomes to the queue: the next ones each time, since what
// waits for others must not stand in their way. When all have been told it begins
// anew, ever more rarely until there is a verdict.
func (u *unjudged) passDelivery(at *step, self task.PilotID) {
	d := &u.delivery
	if !at.passed(d.due) {
		return
	}
	if !u.none() {
		outcomes := u.pendingOutcomes()
		if next := slices.IndexFunc(outcomes, func(o task.Outcome) bool { return o.Attempt.Counter > d.last }); next > 0 {
			outcomes = outcomes[next:]
		} else if next < 0 {
			d.pause = min(2*d.pause, mostPatient)
		}
		outcomes = outcomes[:message.SplitOutcomes(outcomes, directOutcomes)]
		if len(outcomes) > 0 {
			d.last = outcomes[len(outcomes)-1].Attempt.Counter
		}
		at.act(DeliverToQueue{Outcomes: outcomes, Stored: u.pendingStored()})
	}
	d.due = at.now.Add(message.Jitter(self, at.now, d.pause))
}

func (u *unjudged) pendingOutcomes() []task.Outcome { return inOrder(u.outcomes, oldestFirst) }

func (u *unjudged) pendingStored() []task.Stored { return inOrder(u.stored, task.OutputID.Compare) }

// inOrder lists the values of a map in the order of their keys.
func inOrder[K comparable, V any](values map[K]V, compare func(a, b K) int) []V {
	listed := make([]V, 0, len(values))
	for _, key := range slices.SortedFunc(maps.Keys(values), compare) {
		listed = append(listed, values[key])
	}
	return listed
}
