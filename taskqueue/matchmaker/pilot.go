package matchmaker

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// pilot is what a pilot has told with its last Pull.
type pilot struct {
	node     string
	heard    taskqueue.Instant
	places   task.Places
	capacity task.Capacity
	holding  []task.Holding
	version  uint64 // of its cache summary
	partial  bool   // which does not name every file
	checks   []task.File
	given    map[task.ID]*grant            // what it was given and has in hand
	refused  map[task.ID]taskqueue.Instant // given back, not offered again before then
}

// Hear takes what a pilot says of itself.
func (m *Matchmaker) Hear(now taskqueue.Instant, p *task.Pull) {
	r := m.of(p.Site, now)
	g := r.pilots[p.Pilot]
	if g == nil {
		g = &pilot{given: make(map[task.ID]*grant), refused: make(map[task.ID]taskqueue.Instant)}
		r.pilots[p.Pilot] = g
	}
	g.heard, g.places, g.capacity, g.holding = now, p.Places, p.Capacity, p.Holding
	for _, back := range p.Returns {
		g.refused[back.Task] = now.Add(m.config.HandOut.ShareWait)
	}
	r.now = now
	r.follow(g, p)
	m.takeCache(r, p, g)
}

// inHand are the tasks that some pilot has told to have.
func (r *site) inHand() map[task.ID]bool {
	inHand := make(map[task.ID]bool)
	for _, g := range r.pilots {
		for _, h := range g.holding {
			inHand[h.Task] = true
		}
	}
	return inHand
}

// takeCache follows a pilot's summary. One that does not follow what is known
// is not taken: the version in the answer asks for a whole one.
func (m *Matchmaker) takeCache(r *site, p *task.Pull, g *pilot) {
	c := &p.Cache
	switch {
	case c.Version == g.version && c.Base == c.Version:
		return // nothing new
	case c.Base == 0:
		r.pool.ForgetCache(p.Pilot)
		g.partial = false
	case c.Base != g.version:
		return
	}
	g.version = c.Version
	r.pool.Unlearn(p.Pilot, c.Removed)
	room := min(task.MaxPrints-r.pool.Holds(p.Pilot), m.config.Match.Prints-m.prints())
	all := r.pool.Learn(p.Pilot, c.Added, room)
	g.partial = c.Partial || g.partial || !all
}

func (m *Matchmaker) prints() (sum int) {
	for _, r := range m.sites {
		sum += r.pool.Prints()
	}
	return sum
}

// Version is that of the summary that is known of a pilot's cache.
func (m *Matchmaker) Version(site task.Site, pilot task.PilotID) uint64 {
	if _, g := m.pilot(site, pilot); g != nil {
		return g.version
	}
	return 0
}

// Knows tells whether a pilot of a site was heard and is not gone.
func (m *Matchmaker) Knows(site task.Site, pilot task.PilotID) bool {
	_, g := m.pilot(site, pilot)
	return g != nil
}

// Left forgets a pilot that is gone.
func (m *Matchmaker) Left(site task.Site, pilot task.PilotID) {
	if r, g := m.pilot(site, pilot); g != nil {
		delete(r.pilots, pilot)
		r.pool.Forget(pilot)
	}
}

// Capacity sums what the pilots of a site have told.
func (m *Matchmaker) Capacity(site task.Site) (sum task.Capacity) {
	r := m.sites[site]
	if r == nil {
		return sum
	}
	first := task.PilotID("")
	for id, g := range r.pilots {
		c := &g.capacity
		sum.Pilots++
		sum.Assigned += c.Assigned
		sum.Running += c.Running
		sum.Waiting += c.Waiting
		sum.CacheBytes += c.CacheBytes
		sum.CacheUsed += c.CacheUsed
		sum.Evictions += c.Evictions
		sum.Damaged += c.Damaged
		sum.Stopped += c.Stopped
		sum.StoppedSlots += c.StoppedSlots
		why := c.StoppedWhy
		if held := r.setBack(g); held != "" && c.Stopped == 0 {
			why = held
			sum.Stopped++
			sum.StoppedSlots += c.Slots
		} else {
			sum.Slots += c.Slots
			sum.FreeSlots += c.FreeSlots
		}
		if why != "" && (first == "" || id < first) {
			first, sum.StoppedWhy = id, why
		}
	}
	return sum
}

// Broken notes that the connection of a pilot's parked call is gone: one that
// does not call again soon is dead.
func (m *Matchmaker) Broken(now taskqueue.Instant, site task.Site, pilot task.PilotID) {
	if _, g := m.pilot(site, pilot); g != nil {
		g.heard = min(g.heard, now.Add(m.config.Match.BrokenSilence-m.config.Match.PilotSilence))
	}
}

// Silent lists pilots of a site that have not been heard for PilotSilence, of
// those that live by the records.
func (m *Matchmaker) Silent(now taskqueue.Instant, site task.Site, live []taskqueue.PilotRecord, waits func(task.PilotID) bool) []task.PilotID {
	r := m.of(site, now)
	var silent []task.PilotID
	for i := range live {
		heard := r.since
		if g := r.pilots[live[i].ID]; g != nil {
			heard = g.heard
		}
		if !waits(live[i].ID) && now.Sub(heard) >= m.config.Match.PilotSilence {
			silent = append(silent, live[i].ID)
		}
	}
	return silent
}

// allHeard tells whether every live pilot of a site has told what it has since
// the mode in force began.
func (m *Matchmaker) allHeard(site *taskqueue.SiteRecord, live []taskqueue.PilotRecord) bool {
	r := m.sites[site.Name]
	if r == nil {
		return len(live) == 0
	}
	return !slices.ContainsFunc(live, func(p taskqueue.PilotRecord) bool {
		g := r.pilots[p.ID]
		return g == nil || g.heard < site.ModeSince
	})
}

// Tend decides what is to be done for a site, of which record, live pilots and the files
// that only caches hold were read, and which pilots should ask again. Calls tells
// whether a call of a pilot is under way: it lives.
func (m *Matchmaker) Tend(
	now taskqueue.Instant, site *taskqueue.SiteRecord, live []taskqueue.PilotRecord, unsafe []task.File, calls func(task.PilotID) bool,
) (care taskqueue.Care, ask []task.PilotID) {
	r := m.of(site.Name, now)
	for id := range r.pilots {
		if !calls(id) && !slices.ContainsFunc(live, func(p taskqueue.PilotRecord) bool { return p.ID == id }) {
			m.Left(site.Name, id)
		}
	}
	care.Silent = m.Silent(now, site.Name, live, calls)
	for _, id := range care.Silent {
		m.Left(site.Name, id)
	}
	if care.Told = site.Orphans && m.allHeard(site, live); care.Told {
		care.InHand = r.inHand()
	}
	if care.Safe = site.Check && len(unsafe) == 0; site.Check {
		care.Lost = m.Guard(site.Name, unsafe, live)
		for id, g := range r.pilots {
			if len(g.checks) > 0 {
				ask = append(ask, id)
			}
		}
	}
	var changed []task.PilotID
	care.Nodes, care.Judged, changed = m.Look(now, site)
	care.Back = m.Retract(now, site.Name)
	ask = append(ask, changed...)
	slices.Sort(ask)
	return care, slices.Compact(ask)
}
