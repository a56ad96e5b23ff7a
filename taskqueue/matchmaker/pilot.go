package matchmaker

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// pilot is what a pilot has told with its last Pull.
type pilot struct {
	record   taskqueue.PilotRecord // as it was stored then
	heard    taskqueue.Instant
	places   task.Places
	capacity task.Capacity
	holding  []task.Holding
	version  uint64 // of its cache summary
	partial  bool   // which does not name every file
	checks   []task.File
	keeps    task.ID                       // for which it keeps slots
	trial    task.ID                       // that decides on its node
	refused  map[task.ID]taskqueue.Instant // given back, not offered again before then
}

// Hear takes what a pilot says of itself, and returns what its site has to offer. Of the
// files that it could not read it leaves in what it says those that no other pilot is
// known to hold; what is said of copies stays. A pilot that has called again by then says
// in the later call how it is.
func (m *Matchmaker) Hear(now taskqueue.Instant, p *task.Pull, newest bool) task.Capacity {
	r := m.of(p.Site, now)
	p.Lost = slices.DeleteFunc(slices.Clone(p.Lost), func(l task.LostFile) bool {
		return l.URL == "" && slices.ContainsFunc(r.holders(l.LFN, l.Digest), func(id task.PilotID) bool { return id != p.Pilot })
	})
	g := r.pilots[p.Pilot]
	if g == nil {
		g = &pilot{refused: make(map[task.ID]taskqueue.Instant)}
		r.pilots[p.Pilot] = g
	}
	for _, back := range p.Returns {
		g.refused[back.Task] = now.Add(m.config.HandOut.ShareWait)
	}
	if !newest {
		return m.Capacity(p.Site)
	}
	g.heard, g.places, g.capacity, g.holding = now, p.Places, p.Capacity, p.Holding
	if !slices.ContainsFunc(p.Holding, func(h task.Holding) bool { return h.Task == g.keeps && !h.Started }) {
		g.keeps = ""
	}
	if !slices.ContainsFunc(p.Holding, func(h task.Holding) bool { return h.Task == g.trial }) {
		g.trial = ""
	}
	m.takeCache(r, p, g)
	return m.Capacity(p.Site)
}

func (g *pilot) node() string { return g.record.Node() }

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
		r.lookAgain()
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
		c := g.capacity
		if held := r.setBack(g); held != "" && c.Stopped == 0 {
			c.Stopped, c.StoppedSlots, c.StoppedWhy, c.Slots, c.FreeSlots = 1, c.Slots, held, 0, 0
		}
		why := c.StoppedWhy
		c.Pilots, c.StoppedWhy = 1, ""
		sum.Add(c)
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

// allHeard tells whether every live pilot of a site has told what it has since
// the mode in force began.
func (r *site) allHeard(site *taskqueue.SiteRecord, live []taskqueue.PilotRecord) bool {
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
	for i := range live {
		id, heard := live[i].ID, r.since
		if g := r.pilots[id]; g != nil {
			heard = g.heard
		}
		if !calls(id) && now.Sub(heard) >= m.config.Match.PilotSilence {
			care.Silent = append(care.Silent, id)
			m.Left(site.Name, id)
		}
	}
	if care.Told = site.Orphans && r.allHeard(site, live); care.Told {
		care.InHand = r.inHand()
	}
	if care.Safe = site.Check && len(unsafe) == 0; site.Check {
		care.Lost = r.guard(unsafe, live)
		for id, g := range r.pilots {
			if len(g.checks) > 0 {
				ask = append(ask, id)
			}
		}
	}
	var changed []task.PilotID
	care.Nodes, care.Judged, changed = r.judged(now, site)
	care.Back = r.retract(now, m.config.Match.RetractEvery)
	ask = append(ask, changed...)
	slices.Sort(ask)
	return care, slices.Compact(ask)
}
