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
func (q *queue) changedMode(site *SiteRecord, before Mode, why string) {
	q.sites.touch(site.Name)
	q.Effects.wake(site.Name)
	q.Effects.Modes = true
	if site.InForce() != before {
		news := SiteNews{Site: site.Name, Before: before, Mode: site.InForce(), Why: why}
		if site.Fallback != "" {
			news.TrialIn = site.TrialPause
		}
		q.Effects.Sites = append(q.Effects.Sites, news)
	}
	q.changeMode(site, before)
}

// changeMode hands the open leases of a site over to those who speak for it in
// the mode in force from now on: to its master, or each to the pilots that
// have its tasks in hand. What nobody claims is taken back by Tend. No task
// changes its lease, so what runs goes on and its outcome counts.
func (q *queue) changeMode(site *SiteRecord, before Mode) {
	now := site.InForce()
	if now == before {
		return
	}
	site.ModeSince = max(q.Clock, site.ModeSince+1)
	if now.Central() == before.Central() {
		return
	}
	site.Orphans = now.Central()
	if !now.Central() { // the queue may have taken pilots for silent whom their master never missed
		q.office.callRoll(site, site.Roll+1)
	}
	q.sites.look(site)
	site.Refused = nil // in the other mode it is somebody else's business
	for _, lease := range q.leasing.leasesOf(site.Name) {
		if lease.Pilot != "" {
			q.Effects.wakePilot(lease.Pilot)
			lease.Pilot = ""
			q.leases.touch(lease.ID)
		}
	}
}

// reclaim takes back tasks of a site's former master that no pilot has in hand, and
// asks nobody any more for such ones.
func (l *leasing) reclaim(site *SiteRecord, inHand map[task.ID]bool) {
	site.Orphans = false
	l.sites.touch(site.Name)
	for _, lease := range l.leasesOf(site.Name) {
		if lease.Pilot != "" {
			continue
		}
		for _, s := range l.life.leased(lease) {
			if !inHand[s.ID] {
				l.life.reopen(s, task.Return, "the site's mode changed and no pilot has it in hand")
			}
		}
		site.Orphans = site.Orphans || lease.Open > 0
	}
	var nobodys []Revocation
	for _, r := range read(l.Leases().Revocations(site.Name)) {
		switch {
		case r.Pilot != "":
		case inHand[r.Task]:
			site.Orphans = true
		default:
			nobodys = append(nobodys, r)
		}
	}
	saveAll(nobodys, l.Leases().Confirm)
}

// takeBackFrom reopens what a pilot that is gone held by leases of its own, and asks
// for nothing of them any more.
func (l *leasing) takeBackFrom(pilot *PilotRecord, reason string) {
	for _, lease := range l.leases.of(read(l.Leases().OfPilot(pilot.ID))) {
		l.life.takeBack(lease, task.LeaseExpired, fmt.Sprintf("pilot %s is gone: %s", pilot.ID, reason))
	}
	l.life.saveRevocations()
	saveAll(read(l.Leases().RevocationsOf(pilot.ID)), l.Leases().Confirm)
	if site := l.sites.held[pilot.Site]; site != nil && site.InForce().Central() {
		site.Orphans = true // it may have had tasks of a former master
	}
}
