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
	return r.apply(t, func(b *book) error {
		for _, step := range []func() error{
			b.forgetPast, b.expireLeases, b.endBackoffs, b.watchSites, b.trySites, b.dismissOverdue, b.dropUnsealed, b.reassess,
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

func (b *book) expireLeases() error {
	expired, err := b.Leases().ExpiredBy(b.Clock)
	if err != nil {
		return fmt.Errorf("load expired leases: %w", err)
	}
	for i := range expired {
		lease := expired[i]
		if err := b.takeBack(&lease, task.LeaseExpired, fmt.Sprintf("lease %d of site %s expired", lease.ID, lease.Site)); err != nil {
			return err
		}
	}
	return nil
}

// endBackoffs wakes the idle sites when a READY task's backoff ended since the
// last tick that noticed one.
func (b *book) endBackoffs() error {
	last, err := b.noted(metaTick)
	if err != nil {
		return err
	}
	next, err := b.Tasks().NextBackoff(last)
	if err != nil {
		return fmt.Errorf("load the next backoff: %w", err)
	}
	if next == 0 || next > b.Clock {
		return nil
	}
	if err := b.wakeIdle(); err != nil {
		return err
	}
	return b.noteNow(metaTick)
}

// noted returns an instant that ticks keep under a name; zero if there is
// none.
func (b *book) noted(name string) (at Instant, err error) {
	text, err := b.Meta().Get(name)
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

func (b *book) noteNow(name string) error {
	text, err := json.Marshal(b.Clock)
	if err != nil {
		return fmt.Errorf("write the instant %q: %w", name, err)
	}
	return b.Meta().Set(name, text)
}

// wakeIdle wakes the sites that have slots without work.
func (b *book) wakeIdle() error {
	if err := b.loadSites(); err != nil {
		return err
	}
	for _, name := range b.siteNames {
		if site := b.sites.held[name]; site.Pilots > 0 && !site.Draining && site.idle() > 0 {
			b.wake(name)
		}
	}
	return nil
}

// watchSites takes a site that was not heard for a lease's time for empty,
// and goes on forgetting the caches of empty ones.
func (b *book) watchSites() error {
	if err := b.loadSites(); err != nil {
		return err
	}
	for _, name := range b.siteNames {
		site := b.sites.held[name]
		if site.Pilots > 0 && b.Clock.Sub(site.LastHeard()) >= b.config.Lease.TTL {
			if err := b.silence(site); err != nil {
				return err
			}
		}
		if site.Forget && b.Clock >= site.ForgetAt {
			if err := b.forgetCaches(site); err != nil {
				return err
			}
		}
	}
	return nil
}

// silence takes all pilots of a site for dead.
func (b *book) silence(site *SiteRecord) error {
	live, err := b.alive(site.Name)
	if err != nil {
		return err
	}
	for _, pilot := range live {
		if err := b.dismiss(site, pilot, PilotDead, fellSilent); err != nil {
			return err
		}
		site.Silenced = append(site.Silenced, pilot.ID)
	}
	slices.Sort(site.Silenced)
	site.Silenced = slices.Compact(site.Silenced) // one may have come and fallen silent again
	site.Pilots, site.Registered = 0, 0
	b.sites.touch(site.Name)
	return b.vacate(site, "its site fell silent")
}

// dropUnsealed removes workflows whose next part did not come in time.
func (b *book) dropUnsealed() error {
	ids, err := b.unsealed()
	if err != nil {
		return err
	}
	for _, id := range ids {
		w, err := b.workflow(id)
		if err != nil {
			return err
		}
		if b.Clock.Sub(w.Last) < b.config.Workflow.UnsealedFor {
			continue
		}
		if err := b.dropWorkflow(w); err != nil {
			return err
		}
	}
	return nil
}

// dropWorkflow removes a workflow that was never sealed, with its tasks and
// files.
func (b *book) dropWorkflow(w *Workflow) error {
	if err := b.releaseShared(w.ID); err != nil {
		return err
	}
	if err := b.Tasks().DeleteWorkflow(w.ID); err != nil {
		return fmt.Errorf("drop tasks of %s: %w", w.ID, err)
	}
	prefix := string(w.ID) + ":"
	for {
		files, err := b.Files().List(prefix, "", b.config.Workflow.SweepPage)
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
		if err := b.Files().Delete(names...); err != nil {
			return fmt.Errorf("drop files of %s: %w", w.ID, err)
		}
	}
	if err := b.noteUnsealed(w.ID, false); err != nil {
		return err
	}
	b.progress(w.ID)
	return b.Workflows().Delete(w.ID)
}

// releaseShared takes a workflow's reads of shared files out of their counts.
func (b *book) releaseShared(id task.WorkflowID) error {
	for after := uint64(0); ; {
		states, err := b.Tasks().InWorkflow(id, after, sealPage)
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
		specs, err := b.Tasks().Describe(ids...)
		if err != nil {
			return fmt.Errorf("load tasks of %s: %w", id, err)
		}
		for i := range specs {
			for _, name := range inputs(&specs[i]) {
				if !strings.HasPrefix(string(name), task.SharedPrefix) {
					continue
				}
				record, err := b.entry(name)
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
func (b *book) reassessAll() error { return b.setPlace(&place{}) }

func (b *book) setPlace(at *place) error {
	if at == nil {
		return b.Meta().Set(metaReassess, nil)
	}
	text, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("write the sweep's place: %w", err)
	}
	return b.Meta().Set(metaReassess, text)
}

// reassess reviews one page of waiting tasks after a site was added or
// changed: what nobody could run, or only some, it may.
func (b *book) reassess() error {
	text, err := b.Meta().Get(metaReassess)
	if err != nil || len(text) == 0 {
		return err
	}
	var at place
	if err := json.Unmarshal(text, &at); err != nil {
		return fmt.Errorf("the sweep's place is damaged: %w", err)
	}
	for budget := b.config.Workflow.SweepPage; budget > 0; {
		if at.After == 0 {
			next, err := b.Workflows().List("", at.Workflow, 1)
			if errors.Is(err, ErrWorkflowGone) {
				return b.reassessAll() // it was dropped
			}
			if err != nil {
				return fmt.Errorf("list workflows: %w", err)
			}
			if len(next) == 0 {
				return b.setPlace(nil)
			}
			at.Workflow = next[0].ID
			if err := b.recountHomeless(at.Workflow); err != nil {
				return err
			}
		}
		states, err := b.Tasks().InWorkflow(at.Workflow, at.After, budget, task.Blocked, task.Ready)
		if err != nil {
			return fmt.Errorf("load tasks of %s: %w", at.Workflow, err)
		}
		b.holdTasks(states)
		for i := range states {
			if states[i].Missing == 0 {
				b.review(states[i].ID)
			}
		}
		if len(states) < budget {
			at.After = 0
		} else {
			at.After = states[len(states)-1].Seq
		}
		budget -= len(states) + 1
	}
	return b.setPlace(&at)
}
