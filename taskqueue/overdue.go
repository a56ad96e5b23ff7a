package taskqueue

import (
	"fmt"
	"time"
)

// dismissOverdue takes pilots for dead that are well past their declared end
// and never said goodbye: killed with their whole site, or gone before they
// found a master that could report them.
func (b *book) dismissOverdue() error {
	last, err := b.noted(metaOverdue)
	if err != nil || last != 0 && b.Clock.Sub(last) < b.config.Site.OverdueEvery {
		return err
	}
	if err := b.noteNow(metaOverdue); err != nil {
		return err
	}
	if err := b.loadSites(); err != nil {
		return err
	}
	for _, name := range b.siteNames {
		if site := b.sites.held[name]; site.Pilots > 0 {
			if err := b.dismissOverdueOf(site); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *book) dismissOverdueOf(site *SiteRecord) error {
	live, err := b.alive(site.Name, "")
	if err != nil {
		return err
	}
	dismissed := false
	for _, pilot := range live {
		over := pilot.Ends.Add(b.config.Site.DeadAfterEnd)
		heard := pilot.ID == site.Master && b.Clock.Sub(site.LastSync) < b.config.Site.LiveFor
		if pilot.Ends.IsZero() || !b.Wall.After(over) || heard {
			continue
		}
		reason := fmt.Sprintf("its declared end %s has passed without a goodbye", pilot.Ends.UTC().Format(time.RFC3339))
		if err := b.dismiss(site, pilot, PilotDead, reason); err != nil {
			return err
		}
		dismissed = true
	}
	if dismissed && site.Pilots <= 0 {
		return b.vacate(site, "its pilots are past their end")
	}
	return nil
}
