package taskqueue

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// Names of the values that ticks keep.
const (
	metaTick     = "tick"     // the clock at the last tick
	metaOverdue  = "overdue"  // the clock at the last look for pilots past their end
	metaReassess = "reassess" // how far the review of all waiting tasks has come
	metaForget   = "forget"   // how far forgetting what has gone has come
)

// Tick does what only time brings about, and what need not be done at once. It has idle
// sites ask others for work, reopens the tasks of expired leases, wakes sites when a
// backoff is over, takes silent sites for empty and pilots that are long past their
// declared end for dead, and tries sites that have fallen back. It forgets the caches of
// sites that nobody is left at, pilots that went long ago and classes without tasks,
// drops workflows whose last part never came, goes on with the review of waiting tasks
// after a site was added or changed, clears away what nobody needs any more, and cancels
// what is left of the work of banned persons. Long sweeps do one page a tick.
func (r *Rules) Tick(t *Turn) (err error) {
	q := r.open(t)
	defer q.close(&err)
	q.forgetPast()
	q.recallForIdle()
	q.leasing.expireLeases()
	q.ready.endBackoffs()
	q.watchSites()
	q.trySites()
	q.dismissOverdue()
	q.clearing.dropUnsealed()
	q.ready.reassess()
	q.clearAway()
	q.cancelBanned()
	return nil
}

// Deadline returns when the next Tick is due: at once while a sweep is under
// way, at the end of the next backoff, and at the latest after TickEvery. A queue rests if
// nothing has changed since the beginning of a Tick that changed nothing: for RestEvery,
// unless the time of a lease, a site or a trial comes before.
func (r *Rules) Deadline(t *Turn, rests bool) (due Instant, err error) {
	defer catch(&err)
	due = t.Clock.Add(r.Config.Workflow.TickEvery)
	sweep := read(t.Meta().Get(metaReassess))
	if len(sweep) > 0 {
		return t.Clock, nil
	}
	if slices.ContainsFunc(bansIn(t.Meta()), isCancelling) {
		return t.Clock, nil
	}
	if rests {
		due = newRecords(t, &r.Config).restsUntil(t.Clock.Add(r.Config.Workflow.RestEvery))
	}
	for _, x := range clearances(t.Meta()) {
		due = min(due, max(t.Clock, x.From))
	}
	next := read(t.Tasks().NextBackoff(t.Clock))
	if next > t.Clock {
		due = min(due, next)
	}
	return due, nil
}

// restsUntil is when something is due next of leases and sites, at the latest at a given time.
func (r *records) restsUntil(due Instant) Instant {
	for _, lease := range read(r.Leases().ExpiredBy(due)) {
		due = min(due, lease.Expires)
	}
	for site := range r.sites.all() {
		if site.Pilots > 0 {
			due = min(due, site.LastHeard().Add(r.config.Lease.TTL))
		}
		if site.Forget {
			due = min(due, site.ForgetAt)
		}
		switch {
		case site.Fallback == "" || site.Pilots < 2 && site.Trial == 0:
		case site.Trial != 0:
			due = min(due, site.Trial.Add(r.config.Fallback.TrialTime))
		default:
			due = min(due, site.TrialAt)
		}
	}
	return max(r.Clock, due)
}

func (l *leasing) expireLeases() {
	for _, lease := range l.leases.of(read(l.Leases().ExpiredBy(l.Clock))) {
		l.life.takeBack(lease, task.LeaseExpired, fmt.Sprintf("lease %d of site %s expired", lease.ID, lease.Site))
	}
}

// endBackoffs wakes the idle sites when a READY task's backoff ended since the
// last tick that noticed one.
func (r *readiness) endBackoffs() {
	var last Instant
	recall(r.Meta(), metaTick, &last)
	next := read(r.Tasks().NextBackoff(last))
	if next == 0 || next > r.Clock {
		return
	}
	r.wakeIdle()
	remember(r.Meta(), metaTick, r.Clock)
}

// wakeIdle wakes the sites that have slots without work.
func (r *readiness) wakeIdle() {
	for site := range r.sites.all() {
		if site.Pilots > 0 && !site.Draining && site.idle() > 0 {
			r.Effects.wake(site.Name)
		}
	}
}

// watchSites takes a site that was not heard for a lease's time for empty,
// and goes on forgetting the caches of empty ones.
func (q *queue) watchSites() {
	for site := range q.sites.all() {
		if site.Pilots > 0 && q.Clock.Sub(site.LastHeard()) >= q.config.Lease.TTL {
			q.silence(site)
		}
		if site.Forget && q.Clock >= site.ForgetAt {
			q.catalogue.forgetCaches(site)
		}
	}
}

// silence takes all pilots of a site for dead.
func (q *queue) silence(site *SiteRecord) {
	live := q.pilots.alive(site.Name)
	q.Effects.tell(News{Kind: NewsSiteSilent, Site: site.Name, Text: fmt.Sprintf("nobody of it was heard for %s: %s taken for dead", q.config.Lease.TTL, task.Counted(len(live), "pilot"))})
	for _, pilot := range live {
		q.dismiss(site, pilot, PilotDead, fellSilent)
		site.Silenced = append(site.Silenced, pilot.ID)
	}
	slices.Sort(site.Silenced)
	site.Silenced = slices.Compact(site.Silenced) // one may have come and fallen silent again
	site.Pilots, site.Registered = 0, 0
	q.sites.touch(site.Name)
	q.vacate(site, "its site fell silent")
}

// place is how far the review of all waiting tasks has come: workflows from
// the newest, their tasks from the oldest.
type place struct {
	Workflow task.WorkflowID
	After    uint64
}

// reassessAll begins the review of all waiting tasks anew.
func (l *lifecycle) reassessAll() { remember(l.Meta(), metaReassess, place{}) }

// reassess reviews one page of waiting tasks after a site was added or
// changed: what nobody could run, or only some, it may.
func (r *readiness) reassess() {
	var at place
	if !recall(r.Meta(), metaReassess, &at) {
		return
	}
	for budget := r.config.Workflow.SweepPage; budget > 0; {
		if at.After == 0 {
			next, err := r.Workflows().List("", "", at.Workflow, 1)
			if errors.Is(err, ErrWorkflowGone) {
				r.life.reassessAll()
				return // it was dropped
			}
			check(err)
			if len(next) == 0 {
				check(r.Meta().Set(metaReassess, nil))
				return
			}
			at.Workflow = next[0].ID
			r.recountHomeless(at.Workflow)
		}
		states := read(r.Tasks().InWorkflow(at.Workflow, at.After, budget, task.Blocked, task.Ready))
		r.tasks.hold(states)
		for i := range states {
			if states[i].Missing == 0 {
				r.life.review(states[i].ID)
			}
		}
		if len(states) < budget {
			at.After = 0
		} else {
			at.After = states[len(states)-1].Seq
		}
		budget -= len(states) + 1
	}
	remember(r.Meta(), metaReassess, at)
}
