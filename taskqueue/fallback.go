package taskqueue

import (
	"fmt"

	"github.com/pilotage-grid/pilotage/task"
)

// Unreachable is a pilot's word that no other pilot of its site can be reached
// from it, or that none reaches it.
type Unreachable struct {
	Site   task.Site
	Pilot  task.PilotID
	Reason string
}

// Unreachable books that a pilot cannot talk with the others of its site, and
// returns the settings that hold from then on. When more pilots say so than
// work with the site's master, the site falls back to mode isolated, which
// needs no traffic between pilots, until an operator sets a mode or its last
// pilot has left. A site without a storage element has nothing to fall back to.
//
// Errors: ErrNotFound (site or pilot), ErrConflict (the pilot has left).
func (r *Rules) Unreachable(t *Turn, u Unreachable) (task.SiteSettings, error) {
	var settings task.SiteSettings
	err := r.apply(t, func(b *book) error {
		pilot, site, err := b.pilot(u.Pilot)
		if err != nil {
			return err
		}
		switch {
		case pilot.Site != u.Site:
			return notFound("pilot", u.Pilot)
		case pilot.State == PilotLeft:
			return conflict("pilot %s has left", u.Pilot)
		case pilot.State == PilotDead: // its master cannot see that it lives
			b.revive(site, pilot)
		}
		pilot.Unreachable = true
		b.pilots.touch(pilot.ID)
		if err := b.fallBack(site, u.Reason); err != nil {
			return err
		}
		settings = r.Settings(*site)
		return nil
	})
	return settings, err
}

// fallBack has a site do without its network, if that is what its pilots say.
func (b *book) fallBack(site *SiteRecord, reason string) error {
	if site.InForce() == ModeIsolated || site.SE == "" {
		return nil
	}
	live, err := b.alive(site.Name)
	if err != nil {
		return err
	}
	unreachable, working := 0, 0
	for _, pilot := range live {
		switch {
		case pilot.Unreachable:
			unreachable++
		case pilot.Met > 0 && pilot.ID != site.Master:
			working++
		}
	}
	if unreachable <= working {
		return nil
	}
	before := site.InForce()
	site.Fallback = fmt.Sprintf("%s is set, but its pilots cannot reach one another: %d of %d say so; the last one: %s",
		before, unreachable, len(live), reason)
	return b.changedMode(site, before)
}

// changedMode has everybody know of a site's other mode.
func (b *book) changedMode(site *SiteRecord, before Mode) error {
	b.sites.touch(site.Name)
	b.wake(site.Name)
	b.Effects.Modes = true
	return b.changeMode(site, before)
}
