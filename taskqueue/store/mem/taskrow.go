package mem

import (
	"reflect"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// taskRow is a task, packed: a simulation keeps millions that wait or run, for
// which most fields of a TaskState are zero.
type taskRow struct {
	id          task.ID
	workflow    uint64 // its number
	seq         uint64
	notBefore   taskqueue.Instant
	lease       task.LeaseID
	site        task.Site
	description *task.Task // without ID; shared by tasks that have nothing else of their own
	rest        *restOfState
	changed     moment
	class       taskqueue.ClassID
	generation  uint32
	number      int
	state       task.State
	bare        bool
	final       bool
	recalled    bool
}

// restOfState are the fields that most tasks that wait or run leave zero.
type restOfState struct {
	priority      int
	missing       int
	failures      int
	losses        int
	pilotFaults   int
	storageFaults int
	remade        int
	winner        task.AttemptID
	reason        string
	upstream      task.ID
	memoKey       task.Digest
	past          []taskqueue.PastLease
}

// moment is a time in UTC.
type moment struct {
	seconds     int64 // since 1970
	nanoseconds int32
}

func momentOf(t time.Time) moment { return moment{t.Unix(), int32(t.Nanosecond())} }

func (m moment) time() time.Time { return time.Unix(m.seconds, int64(m.nanoseconds)).UTC() }

// keep packs a state; what belongs to the description and the age stay.
func (r *taskRow) keep(s *taskqueue.TaskState) {
	r.notBefore, r.lease, r.site, r.changed = s.NotBefore, s.Lease, s.Site, momentOf(s.Changed)
	r.class, r.generation, r.number = s.Class, s.Generation, s.Number
	r.state, r.bare, r.final, r.recalled = s.State, s.Bare, s.Final, s.Recalled
	rest := restOfState{
		priority: s.Priority, missing: s.Missing, failures: s.Failures, losses: s.Losses,
		pilotFaults: s.PilotFaults, storageFaults: s.StorageFaults, remade: s.Remade,
		winner: s.Winner, reason: s.Reason, upstream: s.Upstream, memoKey: s.MemoKey,
	}
	r.rest = nil
	if s.Past != nil || !rest.isZero() {
		rest.past = slices.Clone(s.Past)
		r.rest = &rest
	}
}

// isZero looks at all fields but past.
func (r *restOfState) isZero() bool {
	return r.priority == 0 && r.missing == 0 && r.failures == 0 && r.losses == 0 && r.pilotFaults == 0 && r.storageFaults == 0 && r.remade == 0 &&
		r.winner.IsZero() && r.reason == "" && r.upstream == "" && r.memoKey.IsZero()
}

// read unpacks the state for a caller, who may keep it.
func (r *taskRow) read(s *taskqueue.TaskState) {
	*s = taskqueue.TaskState{
		ID: r.id, Seq: r.seq, State: r.state, Generation: r.generation, Bare: r.bare, Final: r.final, Class: r.class, NotBefore: r.notBefore,
		Lease: r.lease, Site: r.site, Number: r.number, Recalled: r.recalled, Changed: r.changed.time(),
	}
	if rest := r.rest; rest != nil {
		s.Priority, s.Missing, s.Failures, s.Losses = rest.priority, rest.missing, rest.failures, rest.losses
		s.PilotFaults, s.StorageFaults = rest.pilotFaults, rest.storageFaults
		s.Remade, s.Winner, s.Reason = rest.remade, rest.winner, rest.reason
		s.Upstream, s.MemoKey, s.Past = rest.upstream, rest.memoKey, slices.Clone(rest.past)
	}
}

// places is where the orders have a task.
type places struct {
	byAge     place[ageKey]
	ready     place[readyKey]
	backoff   place[backoffKey]
	leased    place[leaseKey]
	memorable place[memoKey]
}

// places of no task are those of nil.
func (r *taskRow) places() (p places) {
	if r == nil {
		return p
	}
	p.byAge = place[ageKey]{ageKey{r.workflow, r.seq}, true}
	switch r.state {
	case task.Ready:
		priority := 0
		if r.rest != nil {
			priority = r.rest.priority
		}
		p.ready = place[readyKey]{readyKey{r.class, priority, r.seq}, true}
		p.backoff = place[backoffKey]{backoffKey{r.notBefore, r.seq}, r.notBefore > 0}
	case task.Leased:
		p.leased = place[leaseKey]{leaseKey{r.lease, r.seq}, true}
	case task.Done:
		if r.rest != nil {
			p.memorable = place[memoKey]{memoKey{r.workflow, r.rest.memoKey, r.seq}, !r.rest.memoKey.IsZero()}
		}
	}
	return p
}

// describe returns what is kept of a description: that of the task added
// before, if all but their ids is the same.
func (t *tasks) describe(described task.Task) *task.Task {
	described.ID = ""
	if t.last == nil || !reflect.DeepEqual(*t.last, described) {
		t.last = taskCopy.saved(&described)
	}
	return t.last
}
