package master

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// own is what a master adds that serves its own pilot only: where the queue
// matches tasks to pilots (modes centralized and isolated) every pilot is a
// site of one, and its master speaks with the queue by Pulls.
type own struct {
	on       bool
	answered bool // the queue has answered in this office: it knows what is in hand
}

const (
	// ownCensus is how long a pilot waits for the queue's word on what it has
	// in hand from a master before: as long as it takes.
	ownCensus = 365 * 24 * time.Hour
	// pullHold is how long the queue may park a Pull: it ends at once when
	// there is work.
	pullHold = 10 * time.Second
)

// StandDown has a master give back what is at no pilot, before it leaves
// office because the site's mode has changed.
type StandDown struct{}

// OwnCache tells which files came into this pilot's cache and which left it.
type OwnCache struct{ Added, Removed []task.FileKey }

// CallPull calls the queue and wants a SyncAnswered. The shell adds what the
// node is and the term of its overlay.
type CallPull struct {
	N    uint64
	Pull task.Pull
}

// standDown returns in one last call all that no pilot has.
func (m *Master) standDown() {
	if !m.inOffice || m.own.on || m.provisional || m.fenced {
		return
	}
	for _, h := range byKey(m.holding.site.handout.held) {
		if h.phase <= ready {
			m.holding.giveBack(&m.step, h, "the site's mode changed")
		}
	}
	if !m.holding.outbox.empty() {
		m.call(true)
	}
}

// introduced tells whether this pilot's state is known, without which a Pull
// would say that it has nothing in hand.
func (roster *roster) introduced(at *step) bool {
	w := roster.members[at.self]
	return w != nil && w.described
}

// pull makes a Pull of a call.
func (m *Master) pull(s task.Sync, content bool) task.Pull {
	s.Term = task.Term{}
	if s.Hold > 0 {
		s.Hold = pullHold
	}
	p := task.Pull{Sync: s, Self: m.holding.site.roster.live(&m.step, &m.holding.site.handout), Places: m.holding.site.roster.places(&m.step, &m.holding.site.handout), Holding: m.holding.site.handout.holding()}
	p.Cache = m.ledger.tell(content)
	return p
}

// places are what this pilot can take, less what it holds and has not placed.
func (roster *roster) places(at *step, hand *handout) task.Places {
	w := roster.members[at.self]
	if w == nil || w.draining {
		return task.Places{}
	}
	places := task.Places{
		Free: w.total.resources.Sub(w.used.resources), FreeSlots: w.freeSlots(),
		Prefill: max(0, at.settings.Prefill*w.total.slots-len(w.waiting)), Ending: w.ending(),
	}
	for _, h := range hand.held {
		if h.phase > ready {
			continue
		}
		if places.FreeSlots > 0 {
			places.FreeSlots--
			places.Free = places.Free.Sub(h.Task.Resources)
		} else if places.Prefill > 0 {
			places.Prefill--
		}
	}
	return places
}

// live is what payloads make of this pilot (004, section II): those that have a
// slot, and those that will have one of what it holds and has not placed.
func (roster *roster) live(at *step, hand *handout) (self task.Puller) {
	w := roster.members[at.self]
	if w == nil {
		return self
	}
	bound := make(map[task.Bound]int)
	free, slots := w.total.resources.Sub(w.used.resources).Cores, w.freeSlots()
	for _, j := range w.placements {
		if j.holding && j.held != nil {
			bound[j.held.Task.Bound]++
		}
	}
	for _, h := range byKey(hand.held) {
		if h.phase <= ready && slots > 0 {
			slots--
			bound[h.Task.Bound]++
			free -= h.Task.Resources.Cores
		}
	}
	self.FreeCores, self.CPUBound, self.IOBound = max(0, free), bound[task.CPUBound], bound[task.IOBound]
	return self
}

// holding lists the tasks of this pilot's leases, and what it has in hand of a
// former master's.
func (hand *handout) holding() []task.Holding {
	var list []task.Holding
	for id, h := range byKey(hand.held) {
		list = append(list, task.Holding{Task: id, Lease: h.lease, Started: h.phase == ended || h.placement != nil && h.placement.phase != assigned})
	}
	for _, id := range slices.Sorted(maps.Keys(hand.strays)) {
		if hand.held[id] != nil {
			continue
		}
		for _, j := range hand.strays[id] {
			list = append(list, task.Holding{Task: id, Lease: j.Lease, Started: j.phase != assigned})
		}
	}
	return list
}

// ownCache follows the cache of this pilot.
func (l *ledger) ownCache(at *step, outbox *outbox, e OwnCache) {
	l.change(e.Added, e.Removed)
	if at.inOffice && at.own.on && l.news() {
		outbox.syncSoon(at, at.config.Queue.Every)
	}
}

// summarised notes which summary of the cache the queue has; one that it has
// lost is sent anew.
func (l *ledger) summarised(at *step, outbox *outbox, e SyncAnswered, carried *flight) {
	switch {
	case carried != nil:
		l.landed(carried.summary, e.CacheVersion)
	case outbox.call.flight == nil && e.N == outbox.call.number && e.CacheVersion != l.known:
		l.known = 0
	}
	if l.known == 0 {
		outbox.syncSoon(at, 0)
	}
}
