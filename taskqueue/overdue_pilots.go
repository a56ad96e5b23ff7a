package taskqueue

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// dismissOverdue takes pilots for dead that are well past their declared end
// and never said goodbye, killed with their whole site, and those that no master
// has met since they registered, or the one in office has not since it took
// office, as its predecessor that was killed, or since the queue started, or since they
// said that they are cut off from it. Where there is no master because pilots speak for
// themselves, Tend is for those that have fallen silent.
func (q *queue) dismissOverdue() {
	var last Instant
	if recall(q.Meta(), metaOverdue, &last); last != 0 && q.Clock.Sub(last) < q.config.Site.Pilot.OverdueEvery {
		return
	}
	remember(q.Meta(), metaOverdue, q.Clock)
	for site := range q.sites.all() {
		if site.Pilots > 0 && !site.InForce().Central() {
			q.dismissOverdueOf(site)
		}
	}
}

func (q *queue) dismissOverdueOf(site *SiteRecord) {
	live := q.pilots.alive(site.Name)
	dismissed := false
	for _, pilot := range live {
		if pilot.ID == site.Master && q.Clock.Sub(site.LastSync) < q.config.Site.LiveFor {
			continue // it is heard
		}
		reason := q.members.overdue(site, pilot)
		if reason == "" {
			continue
		}
		q.dismiss(site, pilot, PilotDead, reason)
		dismissed = true
	}
	if dismissed && site.Pilots <= 0 {
		q.vacate(site, "its pilots are gone")
	}
}

// overdue says why a pilot that is not heard is taken for dead, "" if it is
// not.
func (m *members) overdue(site *SiteRecord, pilot *PilotRecord) string {
	absent := m.config.Site.Pilot.AbsentAfter
	since := max(pilot.Since, site.RollAt, pilot.SpokeAt)
	silent := m.Clock.Sub(site.LastSync)
	switch met := pilot.Met > 0 || site.reigned(pilot.ID); {
	case !pilot.Ends.IsZero() && m.Wall.After(pilot.Ends.Add(m.config.Site.Pilot.DeadAfterEnd)):
		return fmt.Sprintf("its declared end %s has passed without a goodbye", pilot.Ends.UTC().Format(time.RFC3339))
	case pilot.Met == site.Roll || m.Clock <= since.Add(absent) || m.Clock.Sub(site.ModeSince) < absent:
		return ""
	case pilot.ID == site.Master && pilot.Met == 0 && silent >= absent:
		return fmt.Sprintf("it is its site's master, and was not heard for %s", silent.Round(time.Second))
	case pilot.ID == site.Master || met && silent >= m.config.Site.LiveFor:
		return "" // a site that is cut off may have all its pilots
	case met:
		return fmt.Sprintf("the master in office has not met it for %s", absent)
	case pilot.Unreachable:
		return fmt.Sprintf("it said that it is cut off from the others of its site, and has not said so again for %s", absent)
	}
	return fmt.Sprintf("it has registered, but no master of its site has met it for %s", absent)
}

// reigned tells whether a pilot was the site's master once.
func (s *SiteRecord) reigned(pilot task.PilotID) bool {
	return slices.ContainsFunc(s.History, func(m Mastership) bool { return m.Pilot == pilot })
}
