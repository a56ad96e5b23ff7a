package master

import (
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
)

// foresight has the matrix keep the slots of a pilot for a task that fits
// nowhere: it would wait for ever while smaller ones take each slot that becomes
// free (DESIGN section 6).
type foresight struct{ *Master }

var _ matcher.Foresight = foresight{}

// Now satisfies matcher.Foresight.
func (f foresight) Now() time.Time { return f.now }

// Waited satisfies matcher.Foresight.
func (f foresight) Waited(no uint64) bool {
	h := f.list.owner[no]
	return h != nil && !h.readySince.IsZero() && f.now.Sub(h.readySince) >= f.config.Placing.ReserveAfter
}

// Expected satisfies matcher.Foresight.
func (f foresight) Expected(no uint64) time.Duration {
	if h := f.list.owner[no]; h != nil {
		return f.durations.Expected(&h.Task)
	}
	return matcher.UnknownRun
}

// Occupancy satisfies matcher.Foresight. What a plan has reserved runs what its
// plan says.
func (f foresight) Occupancy(id task.PilotID) (found matcher.Occupancy, ok bool) {
	w := f.members[id]
	if w == nil || !w.described || w.health != health.Fit || w.draining || f.replication.reserved[id] {
		return found, false
	}
	found.Total, found.Slots = w.total.resources, w.total.slots
	if !w.ends.IsZero() {
		found.Lifetime = max(1, w.ends.Sub(f.now))
	}
	for _, j := range w.inOrder() {
		if j.holding {
			found.Running = append(found.Running, matcher.Occupant{Need: j.need, Left: f.leftOf(j)})
		}
	}
	return found, true
}

// leftOf is how much longer a job is expected to hold its slot.
func (f foresight) leftOf(j *job) time.Duration {
	expected := matcher.UnknownRun
	if j.held != nil {
		expected = f.durations.Expected(&j.held.Task)
	}
	return max(0, j.remaining(expected, f.now))
}

// makeRoom takes back what was given early to pilots that keep their slots: it
// would take those that become free.
func (m *Master) makeRoom() {
	for _, id := range m.matrix.Reserved() {
		if w := m.members[id]; w != nil {
			for _, j := range w.waiting {
				m.retract(j)
			}
		}
	}
}

// passOvertaken takes back what was given early to a pilot and has waited there
// for long while later tasks began: it has no room beside them.
func (m *Master) passOvertaken(w *member) {
	for _, j := range w.waiting {
		if m.now.Sub(j.since) >= m.config.Placing.ReserveAfter && !j.isSuccessor() && w.overtakes(j) {
			m.retract(j)
		}
	}
}

// overtakes tells whether a task that was assigned after a job has a slot.
func (w *member) overtakes(j *job) bool {
	for _, other := range w.jobs {
		if other.holding && other.order > j.order {
			return true
		}
	}
	return false
}

// ending is the most that the end of one task frees at a member.
func (w *member) ending() (most task.Resources) {
	for _, j := range w.jobs {
		if j.holding {
			most = most.Max(j.need)
		}
	}
	return most
}
