package taskqueue

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// InForce is the mode by which a site schedules at the moment.
func (s *SiteRecord) InForce() Mode {
	if s.Fallback != "" {
		return ModeIsolated
	}
	return s.wanted()
}

// wanted is the mode that an operator has set.
func (s *SiteRecord) wanted() Mode {
	if s.Mode == "" {
		return ModeDistributed
	}
	return s.Mode
}

// LastHeard is when the site's master was heard last, or any pilot where none
// speaks for the others.
func (s *SiteRecord) LastHeard() Instant { return max(s.LastSync, s.LastPull) }

// speaker names who is to be heard of a site.
func (s *SiteRecord) speaker() string {
	if s.InForce().Central() {
		return "no pilot of it"
	}
	return "its master"
}

// SiteNews tells of a site's other mode, or of a trial in vain.
type SiteNews struct {
	Site    task.Site
	Before  Mode // "" after a trial in vain
	Mode    Mode // in force
	Why     string
	TrialIn time.Duration // until the next trial; 0: there is none
}

// changedMode has everybody know of a site's other mode.
func (b *book) changedMode(site *SiteRecord, before Mode, why string) error {
	b.sites.touch(site.Name)
	b.wake(site.Name)
	b.Effects.Modes = true
	if site.InForce() != before {
		news := SiteNews{Site: site.Name, Before: before, Mode: site.InForce(), Why: why}
		if site.Fallback != "" {
			news.TrialIn = site.TrialPause
		}
		b.Effects.Sites = append(b.Effects.Sites, news)
	}
	return b.changeMode(site, before)
}

// changeMode hands the open leases of a site over to those who speak for it in
// the mode in force from now on: to its master, or each to the pilots that
// have its tasks in hand. What nobody claims is taken back by Reclaim. No task
// changes its lease, so what runs goes on and its outcome counts.
func (b *book) changeMode(site *SiteRecord, before Mode) error {
	now := site.InForce()
	if now == before {
		return nil
	}
	site.ModeSince = b.Clock
	if now.Central() == before.Central() {
		return nil
	}
	site.Orphans = now.Central()
	b.look(site)
	site.Refused = nil // in the other mode it is somebody else's business
	open, err := b.Leases().OfSite(site.Name)
	if err != nil {
		return fmt.Errorf("load leases of %s: %w", site.Name, err)
	}
	for i := range open {
		if b.leases.held[open[i].ID] == nil {
			b.leases.put(open[i].ID, &open[i])
		}
		if lease := b.leases.held[open[i].ID]; lease.Pilot != "" {
			b.wakePilot(lease.Pilot)
			lease.Pilot = ""
			b.leases.touch(lease.ID)
		}
	}
	return nil
}

// Reclaim takes back tasks of a site's former master that no pilot has in
// hand; held tells which ones have one. It is called when every live pilot of
// the site has told what it has.
//
// Errors: ErrNotFound.
func (r *Rules) Reclaim(t *Turn, name task.Site, held func(task.ID) bool) error {
	return r.apply(t, func(b *book) error {
		site, err := b.site(name)
		if err != nil || !site.Orphans || !site.InForce().Central() {
			return err
		}
		open, err := b.Leases().OfSite(name)
		if err != nil {
			return fmt.Errorf("load leases of %s: %w", name, err)
		}
		site.Orphans = false
		b.sites.touch(name)
		for i := range open {
			if open[i].Pilot != "" {
				continue
			}
			if err := b.reclaim(&open[i], held); err != nil {
				return err
			}
			site.Orphans = site.Orphans || b.leases.held[open[i].ID].Open > 0
		}
		return nil
	})
}

func (b *book) reclaim(lease *Lease, held func(task.ID) bool) error {
	if b.leases.held[lease.ID] == nil {
		b.leases.put(lease.ID, lease)
	}
	states, err := b.Tasks().InLease(lease.ID)
	if err != nil {
		return fmt.Errorf("load tasks of lease %d: %w", lease.ID, err)
	}
	b.holdTasks(states)
	for i := range states {
		s := b.tasks.held[states[i].ID]
		if s.State != task.Leased || s.Lease != lease.ID || held(s.ID) {
			continue
		}
		if err := b.reopen(s, task.Return, "the site's mode changed and no pilot has it in hand"); err != nil {
			return err
		}
	}
	return nil
}

// takeBackFrom reopens what a pilot that is gone held by leases of its own.
func (b *book) takeBackFrom(pilot *PilotRecord, reason string) error {
	own, err := b.Leases().OfPilot(pilot.ID)
	if err != nil {
		return fmt.Errorf("load leases of pilot %s: %w", pilot.ID, err)
	}
	ids := make([]task.LeaseID, len(own))
	for i := range own {
		ids[i] = own[i].ID
		if err := b.takeBack(&own[i], task.LeaseExpired, fmt.Sprintf("pilot %s is gone: %s", pilot.ID, reason)); err != nil {
			return err
		}
	}
	if len(ids) > 0 {
		unanswered, err := b.Leases().Revocations(pilot.Site, ids...)
		if err != nil {
			return fmt.Errorf("load revocations of %s: %w", pilot.Site, err)
		}
		if err := saveAll(unanswered, b.Leases().Confirm); err != nil {
			return err
		}
	}
	if site := b.sites.held[pilot.Site]; site != nil && site.InForce().Central() {
		site.Orphans = true // it may have had tasks of a former master
	}
	return nil
}
