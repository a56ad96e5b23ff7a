package taskqueue

import "github.com/pilotage-grid/pilotage/task"

// lifecycle carries tasks from state to state, with every sum that depends on it:
// counts of workflows, open tasks of leases, tasks at sites. It also keeps what the
// parts of a turn ask of the readiness of tasks.
type lifecycle struct {
	*records
	revoked []Revocation
	holders map[task.LeaseID]task.PilotID // of leases that were emptied

	reviewing map[task.ID]struct{}
	reviews   []task.ID // whose readiness is to be judged anew
	remaking  []task.ID // DONE tasks whose lost output is needed
	closed    []task.WorkflowID
	ended     []task.ID // tasks that ended badly: their dependants follow
	// uninformed are LEASED tasks with an input that was made elsewhere after
	// their site had got them.
	uninformed map[task.ID]struct{}
	walkable   []task.ID            // BLOCKED readers seen on the way: candidates to lease ahead
	arisen     map[ClassID]struct{} // classes that got READY tasks since the last settling
}

func newLifecycle(records *records) *lifecycle {
	return &lifecycle{records: records, reviewing: make(map[task.ID]struct{}), uninformed: make(map[task.ID]struct{})}
}

// review asks for a task's readiness to be judged anew when the turn settles.
func (l *lifecycle) review(id task.ID) {
	if _, noted := l.reviewing[id]; !noted {
		l.reviewing[id] = struct{}{}
		l.reviews = append(l.reviews, id)
	}
}

// revoke asks a site for a task, now and in every Sync until it answers.
func (l *lifecycle) revoke(site task.Site, lease task.LeaseID, id task.ID, cancel bool) {
	l.revoked = append(l.revoked, Revocation{Site: site, Lease: lease, Task: id, Cancel: cancel})
	l.Effects.wake(site)
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
		if lease.Pilot != "" {
			if l.holders == nil {
				l.holders = make(map[task.LeaseID]task.PilotID)
			}
			l.holders[lease.ID] = lease.Pilot
		}
	}
	saveAll(open, l.Leases().Save)
	saveAll(over, l.Leases().Delete)
}

// saveRevocations also wakes the pilots whose leases they are of.
func (l *lifecycle) saveRevocations() {
	revoked := l.revoked
	l.revoked = nil
	for _, r := range revoked {
		if l.sites.held[r.Site] != nil && !l.sites.held[r.Site].InForce().Central() {
			continue
		}
		l.leases.load(r.Lease)
		pilot := l.holders[r.Lease]
		if lease := l.leases.held[r.Lease]; lease != nil {
			pilot = lease.Pilot
		}
		if pilot != "" {
			l.Effects.wakePilot(pilot)
		}
	}
	saveAll(revoked, l.Leases().Revoke)
}
