package taskqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// Names of the values that ticks keep.
const (
	metaTick     = "tick"     // the clock at the last tick
	metaOverdue  = "overdue"  // the clock at the last look for pilots past their end
	metaReassess = "reassess" // how far the review of all waiting tasks has come
	metaForget   = "forget"   // how far forgetting what has gone has come
)

// Tick does what only time brings about: it reopens the tasks of expired
// leases, wakes sites when a backoff is over, takes silent sites for empty and
// pilots that are long past their declared end for dead, tries sites that have
// fallen back, forgets the caches of
// sites that nobody is left at, pilots that went long ago and classes without
// tasks, drops workflows whose last part never came, and goes on with the review
// of waiting tasks after a site was added or changed. Long sweeps do one page a
// tick.
func (r *Rules) Tick(t *Turn) error {
	return r.apply(t, func(q *queue) error {
		for _, step := range []func() error{
			q.forgetPast, q.leasing.expireLeases, q.ready.endBackoffs, q.watchSites, q.trySites, q.dismissOverdue, (&abandoned{q.records, q.catalogue}).dropUnsealed, q.ready.reassess,
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Deadline returns when the next Tick is due: at once while a sweep is under
// way, at the end of the next backoff, and at the latest after TickEvery.
func (r *Rules) Deadline(t *Turn) (Instant, error) {
	due := t.Clock.Add(r.Config.Workflow.TickEvery)
	sweep, err := t.Meta().Get(metaReassess)
	if err != nil {
		return 0, fmt.Errorf("load the sweep's place: %w", err)
	}
	if len(sweep) > 0 {
		return t.Clock, nil
	}
	next, err := t.Tasks().NextBackoff(t.Clock)
	if err != nil {
		return 0, fmt.Errorf("load the next backoff: %w", err)
	}
	if next > t.Clock {
		due = min(due, next)
	}
	return due, nil
}

func (l *leasing) expireLeases() error {
	expired, err := l.Leases().ExpiredBy(l.Clock)
	if err != nil {
		return fmt.Errorf("load expired leases: %w", err)
	}
	for i := range expired {
		lease := expired[i]
		if err := l.life.takeBack(&lease, task.LeaseExpired, fmt.Sprintf("lease %d of site %s expired", lease.ID, lease.Site)); err != nil {
			return err
		}
	}
	return nil
}

// endBackoffs wakes the idle sites when a READY task's backoff ended since the
// last tick that noticed one.
func (r *readiness) endBackoffs() error {
	last, err := r.noted(metaTick)
	if err != nil {
		return err
	}
	next, err := r.Tasks().NextBackoff(last)
	if err != nil {
		return fmt.Errorf("load the next backoff: %w", err)
	}
	if next == 0 || next > r.Clock {
		return nil
	}
	if err := r.wakeIdle(); err != nil {
		return err
	}
	return r.noteNow(metaTick)
}

// noted returns an instant that ticks keep under a name; zero if there is
// none.
func (r *records) noted(name string) (at Instant, err error) {
	text, err := r.Meta().Get(name)
	if err != nil {
		return 0, fmt.Errorf("load the instant %q: %w", name, err)
	}
	if len(text) == 0 {
		return 0, nil
	}
	if err := json.Unmarshal(text, &at); err != nil {
		return 0, fmt.Errorf("the instant %q is damaged: %w", name, err)
	}
	return at, nil
}

func (r *records) noteNow(name string) error {
	text, err := json.Marshal(r.Clock)
	if err != nil {
		return fmt.Errorf("write the instant %q: %w", name, err)
	}
	return r.Meta().Set(name, text)
}

// wakeIdle wakes the sites that have slots without work.
func (r *readiness) wakeIdle() error {
	if err := r.loadSites(); err != nil {
		return err
	}
	for _, name := range r.siteNames {
		if site := r.sites.held[name]; site.Pilots > 0 && !site.Draining && site.idle() > 0 {
			r.Effects.wake(name)
		}
	}
	return nil
}

// watchSites takes a site that was not heard for a lease's time for empty,
// and goes on forgetting the caches of empty ones.
func (q *queue) watchSites() error {
	if err := q.loadSites(); err != nil {
		return err
	}
	for _, name := range q.siteNames {
		site := q.sites.held[name]
		if site.Pilots > 0 && q.Clock.Sub(site.LastHeard()) >= q.config.Lease.TTL {
			if err := q.silence(site); err != nil {
				return err
			}
		}
		if site.Forget && q.Clock >= site.ForgetAt {
			if err := q.catalogue.forgetCaches(site); err != nil {
				return err
			}
		}
	}
	return nil
}

// silence takes all pilots of a site for dead.
func (q *queue) silence(site *SiteRecord) error {
	live, err := q.alive(site.Name)
	if err != nil {
		return err
	}
	for _, pilot := range live {
		if err := q.dismiss(site, pilot, PilotDead, fellSilent); err != nil {
			return err
		}
		site.Silenced = append(site.Silenced, pilot.ID)
	}
	slices.Sort(site.Silenced)
	site.Silenced = slices.Compact(site.Silenced) // one may have come and fallen silent again
	site.Pilots, site.Registered = 0, 0
	q.sites.touch(site.Name)
	return q.vacate(site, "its site fell silent")
}

// abandoned drops workflows whose submission was never completed.
type abandoned struct {
	*records
	catalogue *catalogue
}

// dropUnsealed removes workflows whose next part did not come in time.
func (a *abandoned) dropUnsealed() error {
	ids, err := a.unsealed()
	if err != nil {
		return err
	}
	for _, id := range ids {
		w, err := a.workflow(id)
		if err != nil {
			return err
		}
		if a.Clock.Sub(w.Last) < a.config.Workflow.UnsealedFor {
			continue
		}
		if err := a.dropWorkflow(w); err != nil {
			return err
		}
	}
	return nil
}

// dropWorkflow removes a workflow that was never sealed, with its tasks and
// files.
func (a *abandoned) dropWorkflow(w *Workflow) error {
	if err := a.releaseShared(w.ID); err != nil {
		return err
	}
	if err := a.Tasks().DeleteWorkflow(w.ID); err != nil {
		return fmt.Errorf("drop tasks of %s: %w", w.ID, err)
	}
	prefix := string(w.ID) + ":"
	for {
		files, err := a.Files().List(prefix, "", a.config.Workflow.SweepPage)
		if err != nil {
			return fmt.Errorf("load files of %s: %w", w.ID, err)
		}
		if len(files) == 0 {
			break
		}
		names := make([]task.LFN, len(files))
		for i := range files {
			names[i] = files[i].LFN
		}
		if err := a.Files().Delete(names...); err != nil {
			return fmt.Errorf("drop files of %s: %w", w.ID, err)
		}
	}
	if err := a.noteUnsealed(w.ID, false); err != nil {
		return err
	}
	a.Effects.progress(w.ID)
	return a.Workflows().Delete(w.ID)
}

// releaseShared takes a workflow's reads of shared files out of their counts.
func (a *abandoned) releaseShared(id task.WorkflowID) error {
	for after := uint64(0); ; {
		states, err := a.Tasks().InWorkflow(id, after, sealPage)
		if err != nil {
			return fmt.Errorf("load tasks of %s: %w", id, err)
		}
		if len(states) == 0 {
			return nil
		}
		after = states[len(states)-1].Seq
		ids := make([]task.ID, len(states))
		for i := range states {
			ids[i] = states[i].ID
		}
		specs, err := a.Tasks().Describe(ids...)
		if err != nil {
			return fmt.Errorf("load tasks of %s: %w", id, err)
		}
		for i := range specs {
			for _, name := range inputs(&specs[i]) {
				if !strings.HasPrefix(string(name), task.SharedPrefix) {
					continue
				}
				record, err := a.catalogue.entry(name)
				if err != nil {
					return err
				}
				record.Uses--
			}
		}
	}
}

// place is how far the review of all waiting tasks has come: workflows from
// the newest, their tasks from the oldest.
type place struct {
	Workflow task.WorkflowID
	After    uint64
}

// reassessAll begins the review of all waiting tasks anew.
func (r *records) reassessAll() error { return r.setPlace(&place{}) }

func (r *records) setPlace(at *place) error {
	if at == nil {
		return r.Meta().Set(metaReassess, nil)
	}
	text, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("write the sweep's place: %w", err)
	}
	return r.Meta().Set(metaReassess, text)
}

// reassess reviews one page of waiting tasks after a site was added or
// changed: what nobody could run, or only some, it may.
func (r *readiness) reassess() error {
	text, err := r.Meta().Get(metaReassess)
	if err != nil || len(text) == 0 {
		return err
	}
	var at place
	if err := json.Unmarshal(text, &at); err != nil {
		return fmt.Errorf("the sweep's place is damaged: %w", err)
	}
	for budget := r.config.Workflow.SweepPage; budget > 0; {
		if at.After == 0 {
			next, err := r.Workflows().List("", at.Workflow, 1)
			if errors.Is(err, ErrWorkflowGone) {
				return r.reassessAll() // it was dropped
			}
			if err != nil {
				return fmt.Errorf("list workflows: %w", err)
			}
			if len(next) == 0 {
				return r.setPlace(nil)
			}
			at.Workflow = next[0].ID
			if err := r.recountHomeless(at.Workflow); err != nil {
				return err
			}
		}
		states, err := r.Tasks().InWorkflow(at.Workflow, at.After, budget, task.Blocked, task.Ready)
		if err != nil {
			return fmt.Errorf("load tasks of %s: %w", at.Workflow, err)
		}
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
	return r.setPlace(&at)
}
