package taskqueue

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// forgetting is how far the look for records that nobody needs any more has
// come: classes all at once, pilots page by page, by id.
type forgetting struct {
	At    Instant      // of the last page
	After task.PilotID // "": all pilots were looked at
	Began Instant      // of the last look at pilots and access tokens
}

// Pilots and access tokens, of which each factory's job has one, are looked through
// every forgetEvery: they are kept for a day and more. Access tokens are kept for
// keepGrants after they have ended, for people who ask why one is refused.
const (
	keepGrants  = 7 * 24 * time.Hour
	forgetEvery = time.Hour
)

// forgetPast drops, one page every OverdueEvery, what work of the past has left
// behind, so that the queue does not grow with what has gone. It is to be the
// first thing that a turn does: what it reads has to be all there is.
func (q *queue) forgetPast() {
	var at forgetting
	recall(q.Meta(), metaForget, &at)
	if at.At != 0 && q.Clock.Sub(at.At) < q.config.Site.Pilot.OverdueEvery {
		return
	}
	q.classes.dropClasses()
	at.At = q.Clock
	begins := at.After == "" && (at.Began == 0 || q.Clock.Sub(at.Began) >= forgetEvery)
	if begins {
		at.Began = q.Clock
		q.members.forgetGrants()
	}
	if begins || at.After != "" {
		at.After = q.members.forgetPilots(at.After)
	}
	remember(q.Meta(), metaForget, at)
}

// dropClasses forgets the eligibility classes without READY tasks. A task that
// becomes READY has its class interned again.
func (c *classes) dropClasses() {
	ready := read(c.Tasks().ReadyClasses())
	c.load()
	var empty []ClassID
	for id := range c.known.byID {
		if ready[id] == 0 {
			empty = append(empty, id)
		}
	}
	c.known = nil
	slices.Sort(empty)
	saveAll(empty[:min(len(empty), c.config.Workflow.SweepPage)], c.Files().DropClasses)
}

// forgetPilots drops the pilots of one page that have gone for good, and the
// marks that sites keep of them. It returns where the next page begins.
func (m *members) forgetPilots(after task.PilotID) (next task.PilotID) {
	page := m.config.Workflow.SweepPage
	pilots := read(m.Pilots().List(after, page))
	var gone []task.PilotID
	for i := range pilots {
		p := &pilots[i]
		if p.State.Present() || !m.Wall.After(m.config.neededUntil(p)) {
			continue
		}
		gone = append(gone, p.ID)
		m.unmark(p)
	}
	if len(pilots) == page {
		next = pilots[page-1].ID
	}
	saveAll(gone, m.Pilots().Delete)
	return next
}

// forgetGrants drops access tokens that have ended long ago.
func (m *members) forgetGrants() {
	var gone []string
	for _, g := range read(m.Grants().All()) {
		if !g.Expires.IsZero() && m.Wall.Sub(g.Expires) > keepGrants {
			gone = append(gone, g.ID)
		}
	}
	saveAll(gone, m.Grants().Delete)
}

// neededUntil is how long the queue remembers a pilot that has gone: while its
// membership certificate is valid, so that it can be refused and recognised,
// and while its site may still bring outcomes of what it ran.
func (c *Config) neededUntil(p *PilotRecord) time.Time {
	late := p.Ended.Add(c.Site.Pilot.LateFor + c.Lease.TTL)
	if valid := c.validUntil(p); valid.After(late) {
		return valid
	}
	return late
}

// validUntil is when the last membership certificate of a pilot ends.
func (c *Config) validUntil(p *PilotRecord) time.Time {
	if end := p.Ends.Add(c.Site.Pilot.MemberAfterEnd); end.After(p.Certified) {
		return end
	}
	return p.Certified
}

// unmark takes a pilot out of its site's lists.
func (m *members) unmark(p *PilotRecord) {
	site := m.sites.one(p.Site)
	if site == nil {
		return // it was removed
	}
	denied, drain, silenced := len(site.Denied), len(site.Drain), len(site.Silenced)
	same := func(id task.PilotID) bool { return id == p.ID }
	site.Denied = slices.DeleteFunc(site.Denied, func(peer task.PeerID) bool { return peer == p.Peer })
	site.Drain, site.Silenced = slices.DeleteFunc(site.Drain, same), slices.DeleteFunc(site.Silenced, same)
	if len(site.Denied) < denied || len(site.Drain) < drain || len(site.Silenced) < silenced {
		m.sites.touch(site.Name)
	}
}
