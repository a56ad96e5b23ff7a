package taskqueue

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// lifecycle carries tasks from state to state, with every sum that depends on it:
// counts of workflows, open tasks of leases, tasks at sites. It also keeps what the
// parts of a turn ask of the readiness of tasks.
type lifecycle struct {
	*records
	revoked []Revocation

	reviewing map[task.ID]struct{}
	reviews   []task.ID // whose readiness is to be judged anew
	remaking  []task.ID // DONE tasks whose lost output is needed
	closed    []task.WorkflowID
	ended     []task.ID // tasks that ended badly: their dependants follow
	// uninformed are LEASED tasks with an input that was made elsewhere after
	// their site had got them.
	uninformed map[task.ID]struct{}
	// awaited are leases with a task whose outcome others wait for: who holds the lease
	// may think that it has ended, as after a queue was put back to a backup.
	awaited  map[task.LeaseID]struct{}
	walkable []task.ID            // BLOCKED readers seen on the way: candidates to lease ahead
	arisen   map[ClassID]struct{} // classes that got READY tasks since the last settling
}

func newLifecycle(records *records) lifecycle {
	return lifecycle{records: records, reviewing: make(map[task.ID]struct{}), uninformed: make(map[task.ID]struct{}), awaited: make(map[task.LeaseID]struct{})}
}

// review asks for a task's readiness to be judged anew when the turn settles.
func (l *lifecycle) review(id task.ID) {
	if _, noted := l.reviewing[id]; !noted {
		l.reviewing[id] = struct{}{}
		l.reviews = append(l.reviews, id)
	}
}

// revoke asks who holds a task's lease for it, now and in every answer until it is
// confirmed.
func (l *lifecycle) revoke(site task.Site, lease task.LeaseID, id task.ID, cancel bool) {
	r := Revocation{Site: site, Lease: lease, Task: id, Cancel: cancel}
	if held := l.leases.one(lease); held != nil && held.Pilot != "" {
		r.Pilot = held.Pilot
		l.Effects.wakePilot(r.Pilot)
	}
	l.revoked = append(l.revoked, r)
	l.Effects.wake(site)
}

// leased returns the tasks that are LEASED under a lease, by age, as this turn knows
// them.
func (l *lifecycle) leased(lease *Lease) []*TaskState {
	return slices.DeleteFunc(l.tasks.of(read(l.Tasks().InLease(lease.ID))), func(s *TaskState) bool {
		return s.State != task.Leased || s.Lease != lease.ID
	})
}

// saveLeases deletes leases that hold no task any more.
func (l *lifecycle) saveLeases() {
	var open []Lease
	var over []task.LeaseID
	for _, lease := range l.leases.take() {
		if lease.Open > 0 {
			open = append(open, lease)
			continue
		}
		over = append(over, lease.ID)
		l.leases.put(lease.ID, nil)
	}
	saveAll(open, l.Leases().Save)
	saveAll(over, l.Leases().Delete)
}

func (l *lifecycle) saveRevocations() {
	saveAll(l.revoked, l.Leases().Revoke)
	l.revoked = nil
}
