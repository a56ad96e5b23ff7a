package taskqueue

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// FallbackConfig says how often a site that has fallen back is tried.
type FallbackConfig struct {
	// TrialAfter is the pause before the first trial. It doubles with each trial
	// in vain, and with each fall-back within TrialMost of the last one.
	TrialAfter time.Duration
	TrialMost  time.Duration
	// TrialTime is how long pilots may take to answer a trial.
	TrialTime time.Duration
}

// Unreachable is a pilot's word that no other pilot of its site can be reached
// from it, or that none reaches it.
type Unreachable struct {
	Site   task.Site
	Pilot  task.PilotID
	Reason string
}

// Unreachable books that a pilot cannot talk with the others of its site, and
// returns the settings that hold from then on. When more pilots say so than
// work with the others, the site falls back to mode isolated, which needs no
// traffic between pilots, until a trial shows that most of them reach one
// another, an operator sets a mode or its last pilot has left. A site without a
// storage element has nothing to fall back to.
//
// Errors: ErrNotFound (site or pilot), ErrConflict (the pilot has left).
func (r *Rules) Unreachable(t *Turn, u Unreachable) (_ task.SiteSettings, err error) {
	q := r.open(t)
	defer q.close(&err)
	pilot, site := q.pilots.at(u.Site, u.Pilot), q.sites.need(u.Site)
	switch pilot.State {
	case PilotLeft:
		end(conflict("pilot %s has left", u.Pilot))
	case PilotDead: // its master cannot see that it lives, nor that it dies
		q.members.revive(site, pilot)
		pilot.Met = 0
	}
	pilot.Unreachable, pilot.SpokeAt = true, q.Clock
	q.pilots.touch(pilot.ID)
	q.fallBack(site, u.Reason)
	return r.Settings(*site), nil
}

// fallBack has a site do without its network, if that is what its pilots say.
func (q *queue) fallBack(site *SiteRecord, reason string) {
	if site.InForce() == ModeIsolated || site.SE == "" {
		return
	}
	live := q.pilots.alive(site.Name)
	unreachable, working := 0, 0
	for _, pilot := range live {
		switch {
		case pilot.Unreachable:
			unreachable++
		case pilot.ID != site.Master && q.members.works(site, pilot):
			working++
		}
	}
	if unreachable <= working {
		return
	}
	before := site.InForce()
	pause := q.config.Fallback.TrialAfter
	if site.TrialPause > 0 && q.Clock.Sub(site.ModeSince) < q.config.Fallback.TrialMost {
		pause = min(2*site.TrialPause, q.config.Fallback.TrialMost)
	}
	site.Trial, site.TrialAt, site.TrialPause = 0, q.Clock.Add(pause), pause
	site.Fallback = fmt.Sprintf("%s is set, but its pilots cannot reach one another: %d of %d say so; the last one: %s",
		before, unreachable, len(live), reason)
	q.changedMode(site, before, site.Fallback)
}

// works tells whether a pilot that does not say otherwise works with the others
// of its site: its master has met it, it has said so in a trial, or, where no
// master tells whom it meets, it has been there for long.
func (m *members) works(site *SiteRecord, pilot *PilotRecord) bool {
	return pilot.Met > 0 || pilot.Tried > 0 ||
		site.wanted().Central() && m.Clock.Sub(pilot.Since) >= m.config.Site.Pilot.AbsentAfter
}

// Tried is a pilot's answer to a trial.
type Tried struct {
	Site    task.Site
	Pilot   task.PilotID
	Trial   uint64 // as the settings of its site named it
	Reached bool   // most of the others that it tried: they reach it, and it reaches them
	Reason  string // how it failed otherwise
}

// Tried books what a pilot of a site that has fallen back says about the others,
// and returns the settings that hold from then on. Once all have answered, or
// TrialTime has passed, the site goes back to the mode that is set for it if most
// of its live pilots reach the others. Until then it works isolated: a trial costs
// it nothing. An answer to another trial says nothing.
//
// Errors: ErrNotFound (site or pilot).
func (r *Rules) Tried(t *Turn, in Tried) (_ task.SiteSettings, err error) {
	q := r.open(t)
	defer q.close(&err)
	pilot, site := q.pilots.at(in.Site, in.Pilot), q.sites.need(in.Site)
	if site.Trial != 0 && in.Trial == uint64(site.Trial) && pilot.State.Present() {
		pilot.Tried, pilot.Unreachable = site.Trial, !in.Reached
		if !in.Reached {
			site.Fallback = fmt.Sprintf("%s is set, but its pilots cannot reach one another; the last one that tried: %s", site.wanted(), in.Reason)
			q.sites.touch(site.Name)
		}
		q.pilots.touch(pilot.ID)
		q.judgeTrial(site)
	}
	return r.Settings(*site), nil
}

// Peers is a random choice of a site's live pilots other than the one that asks.
//
// Errors: ErrNotFound (the pilot).
func (r *Rules) Peers(t *Turn, id task.PilotID) (_ []Contact, err error) {
	q := r.open(t)
	defer q.close(&err)
	pilot := q.pilots.need(id)
	return q.office.sample(q.pilots.present(pilot.Site, id)), nil
}

// trySites begins and ends trials of sites that have fallen back. A pilot that is
// alone has nobody to try.
func (q *queue) trySites() {
	for site := range q.sites.all() {
		switch {
		case site.Fallback == "":
		case site.Trial != 0:
			q.judgeTrial(site)
		case q.Clock >= site.TrialAt && site.Pilots > 1:
			site.Trial = q.Clock
			q.sites.touch(site.Name)
			q.Effects.Modes = true
		}
	}
}

// judgeTrial ends a trial when all have answered or its time is over, and with it
// the fall-back if most pilots reach the others.
func (q *queue) judgeTrial(site *SiteRecord) {
	live := q.pilots.alive(site.Name)
	reached, silent := 0, 0
	var first *PilotRecord // of those that reach the others
	for _, pilot := range live {
		switch {
		case pilot.Tried != site.Trial:
			silent++
		case !pilot.Unreachable:
			if reached++; first == nil {
				first = pilot
			}
		}
	}
	if silent > 0 && q.Clock.Sub(site.Trial) < q.config.Fallback.TrialTime {
		return
	}
	said := fmt.Sprintf("%d of %d pilots reach one another", reached, len(live))
	q.sites.touch(site.Name)
	if 2*reached <= len(live) {
		pause := min(2*site.TrialPause, q.config.Fallback.TrialMost)
		site.Trial, site.TrialAt, site.TrialPause = 0, q.Clock.Add(pause), pause
		q.Effects.Modes = true
		q.Effects.Sites = append(q.Effects.Sites, SiteNews{Site: site.Name, Mode: site.InForce(), Why: said, TrialIn: pause})
		return
	}
	// A master that the others do not reach would hold the office for nobody.
	if master := q.pilots.held[site.Master]; master != nil && (master.Tried != site.Trial || master.Unreachable) {
		q.office.crown(site, first, 0, "the others do not reach the master before")
	}
	before := site.InForce()
	site.endFallback()
	q.changedMode(site, before, said)
}

// endFallback leaves the mode that an operator has set. How often there were
// trials is known on, should the site fall back again.
func (s *SiteRecord) endFallback() { s.Fallback, s.Trial, s.TrialAt = "", 0, 0 }
