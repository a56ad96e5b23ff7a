package taskqueue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// offer is a class of READY tasks that a site may have, and how many of them.
type offer struct {
	class   *Eligibility
	ready   int           // tasks of the class
	sharers []*SiteRecord // other live sites that share the class
	own     bool          // it prefers the site
	foreign bool          // it prefers another live site
	quota   int
}

// handOut gives a site work: a lease of READY tasks within its share, then of
// tasks further down whose inputs it is about to make.
func (h *handing) handOut(reply *task.SyncReply) {
	site := h.site
	if !site.takes() {
		return
	}
	ready := read(h.Tasks().ReadyClasses())
	if len(h.life.walkable) == 0 && (len(ready) == 0 || !h.wants(site)) {
		return
	}
	h.sites.loadAll()
	chosen := h.choose(site, h.offers(site, ready), site.idle())
	if len(chosen)+len(h.life.walkable) > 0 {
		h.grant(chosen, reply)
	}
}

// takes tells whether hand-outs go to a site.
func (s *SiteRecord) takes() bool { return !s.Draining && s.slots() > 0 && !s.InForce().Central() }

// grant leases the chosen tasks and those further down to the site.
func (h *handing) grant(chosen []task.ID, reply *task.SyncReply) {
	for _, id := range chosen {
		h.lend(id)
	}
	h.leaseAhead(h.lent)
	if h.lease != nil {
		reply.Leases = append(reply.Leases, h.granted())
	}
}

// granted is the lease in full; empty if no task was leased.
func (h *handing) granted() task.Lease {
	if h.lease == nil {
		return task.Lease{}
	}
	h.site.TaskBytes = h.bytes / len(h.lent)
	h.sites.touch(h.site.Name)
	return h.leasing.writeLease(h.site, h.lease, h.lent)
}

// handing is one hand-out: its lease is opened with the first task.
type handing struct {
	*records
	life      *lifecycle
	catalogue *catalogue
	classes   *classes
	leasing   *leasing
	elsewhere elsewhere
	site      *SiteRecord
	pilot     task.PilotID // that gets it; "" is the site's master
	lease     *Lease
	lent      []task.ID
	bytes     int // that the tasks take which it has, or is about to have
}

const (
	// mostBytes is about what the tasks of one hand-out take in the answer, at least one of
	// them: a master does nothing else while it reads that.
	mostBytes = 8 << 20
	// heldBytes is about what those take which a site has not begun: pilots keep copies of
	// them for each other, in messages of at most 32 MiB.
	heldBytes = 24 << 20
)

// has tells whether a hand-out takes a task as well, which then counts; the inputs are
// loaded. One that is too large for any is given up: nobody could be told of it.
func (h *handing) has(id task.ID) bool {
	bytes := h.leasing.told(h.specs.held[id])
	switch {
	case bytes > heldBytes:
		s := h.tasks.held[id]
		if s.State == task.Ready {
			h.life.move(s, task.InputsLost, "pilots cannot be told of its inputs")
		}
		h.life.giveUp(s, fmt.Sprintf("its description and the places of its inputs have %s: pilots are told at most %s of a task: give its inputs fewer copies, or shorter URLs",
			task.Bytes(bytes), task.Bytes(heldBytes)))
		return false
	case h.bytes > 0 && h.bytes+bytes > mostBytes:
		return false
	}
	h.bytes += bytes
	return true
}

func (h *handing) lend(id task.ID) {
	if h.lease == nil {
		lease := h.leasing.openLease(h.site)
		lease.Pilot = h.pilot
		h.lease = lease
	}
	h.lent = append(h.lent, id)
	h.life.lend(h.tasks.held[id], h.lease)
}

// unstarted is how many tasks wait at a site, those without inputs aside.
func (s *SiteRecord) unstarted() int { return max(0, s.Leased-s.Ahead-s.Capacity.Running) }

// freeSlots is how many slots have no task; all, before the master has told of any.
func (s *SiteRecord) freeSlots() int {
	if s.Capacity.Slots == 0 {
		return s.slots()
	}
	return s.Capacity.FreeSlots
}

// idle is how many slots have neither a task nor one that waits for them; below zero,
// how many unstarted tasks have no slot. Tasks that stage in have theirs.
func (s *SiteRecord) idle() int {
	c := &s.Capacity
	staging := min(c.Assigned, max(0, c.Slots-c.FreeSlots-c.Running))
	return s.freeSlots() - max(0, s.unstarted()-staging)
}

// live tells whether a site counts in shares: it has pilots and is heard.
func (r *siteRecords) live(s *SiteRecord) bool {
	return s.Pilots > 0 && !s.Draining && s.slots() > 0 && r.turn.Clock.Sub(s.LastHeard()) < r.config.Site.LiveFor
}

// Live tells whether a site counts in shares.
func (r *Rules) Live(t *Turn, s *SiteRecord) bool { return r.open(t).sites.live(s) }

// refuses tells whether a site lately gave a class back.
func (r *siteRecords) refuses(s *SiteRecord, class task.Class) bool {
	return slices.ContainsFunc(s.Refused, func(refused RefusedClass) bool {
		return refused.Class == class && r.turn.Clock.Sub(refused.At) < r.config.HandOut.RefusalHold
	})
}

// shares tells whether a site takes part in sharing a class: it may run it, or
// may once what only caches hold has reached a storage element.
func (h *handing) shares(s *SiteRecord, class *Eligibility) bool {
	if h.sites.refuses(s, class.Work) {
		return false
	}
	return class.Allows(s.Name) || slices.ContainsFunc(class.Sites, func(name task.Site) bool {
		holder := h.sites.held[name]
		return holder != nil && holder.SE != "" && s.Reaches(name)
	})
}

// offers lists the classes that a site may have, with its quota of each.
// Classes that few share come first, then those that prefer the site, those
// that prefer another live site last: what only one site can run is not
// crowded out, and work goes to its data.
func (h *handing) offers(site *SiteRecord, ready map[ClassID]int) []offer {
	if len(ready) == 0 {
		return nil
	}
	h.classes.load()
	var sharers []*SiteRecord
	for s := range h.sites.all() {
		if s != site && h.sites.live(s) {
			sharers = append(sharers, s)
		}
	}
	var offers []offer
	total := 0
	for id, n := range ready {
		class := h.classes.known.byID[id]
		if class == nil || !class.Allows(site.Name) || h.sites.refuses(site, class.Work) || h.classes.leaves(site, class) {
			continue
		}
		o := offer{class: class, ready: n, own: class.Prefer == site.Name}
		for _, s := range sharers {
			if h.shares(s, class) && !h.classes.leaves(s, class) {
				o.sharers = append(o.sharers, s)
			}
			o.foreign = o.foreign || s.Name == class.Prefer
		}
		total += n
		offers = append(offers, o)
	}
	slices.SortFunc(offers, func(x, y offer) int {
		return cmp.Or(after(x.foreign, y.foreign), cmp.Compare(len(x.sharers), len(y.sharers)),
			after(y.own, x.own), cmp.Compare(x.class.ID, y.class.ID))
	})
	given := 0
	for i := range offers {
		offers[i].quota = h.share(&offers[i], site, total, given)
		given += offers[i].quota
	}
	return offers
}

// after orders what has a mark behind what has none.
func after(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// share is how many tasks of the class a site may take, of total READY tasks
// in its reach and with some given already, so that the load of all sites that
// share the class goes by their slots. Of work that prefers another site, as
// much stays as that one has free slots for, and that one may take as much
// whatever the shares.
func (h *handing) share(o *offer, site *SiteRecord, total, given int) int {
	work, slots, reserved := total+site.Leased, site.slots(), 0
	for _, s := range o.sharers {
		work += s.Leased
		slots += s.slots()
		if s.Name == o.class.Prefer {
			reserved = s.soon()
		}
	}
	target := (work*site.slots() + slots - 1) / slots
	least := 0
	if o.own {
		least = min(o.ready, site.soon()-given)
	}
	return max(0, least, min(target-site.Leased-given, o.ready-reserved))
}

// room is how many more unstarted tasks a site may hold: 10 minutes of work,
// or two tasks a slot while durations are unknown, and four for a free slot; of large
// ones as many as can be told of.
func (h *handing) room(site *SiteRecord) int {
	c := &h.config.HandOut
	median, known := site.medianRun(c.KnownAfter)
	if !known {
		median = c.UnknownTime
	}
	most := int(min(float64(c.Max), float64(site.slots())*float64(c.Work)/float64(max(median, time.Millisecond))))
	if !known {
		most = min(most, c.UnknownTasks*site.slots())
	}
	return min(c.Max, max(most, c.FloorTasks*site.freeSlots()), max(1, heldBytes/max(1, site.TaskBytes))) - site.unstarted()
}

// lumps is how many hand-outs the unstarted tasks of a site come in while its
// slots have enough to do: each costs a look at all sites, and its lease is
// looked at with every Sync until the last task of it has ended.
const lumps = 16

// wants tells whether a site has room for a lump, or for any task while it is
// not far from having no more than those that its slots get early.
func (h *handing) wants(site *SiteRecord) bool {
	room, unstarted := h.room(site), site.unstarted()
	lump := (room + unstarted) / lumps
	return room > 0 && (room >= lump || unstarted < h.config.prefill(site)*site.slots()+2*lump)
}

// choose picks READY tasks within the quotas, highest priority and oldest
// first; then, for slots that stay idle, tasks that nobody whose share they
// are has taken for a while. The first task of a class goes by its own priority
// and age also where the classes before it fill the quotas.
func (h *handing) choose(site *SiteRecord, offers []offer, idle int) []task.ID {
	room := h.room(site)
	quotas := 0
	for i := range offers {
		quotas += offers[i].quota
	}
	first := func(o *offer) int {
		if o.foreign {
			return o.quota
		}
		return max(1, o.quota)
	}
	chosen := h.pick(site, offers, min(room, quotas), first, h.Clock, nil)
	idle = min(idle, room) - len(chosen)
	if idle <= 0 {
		return chosen
	}
	left := h.Clock.Add(-h.config.HandOut.ShareWait)
	quota := func(foreign bool) func(o *offer) int {
		return func(o *offer) int {
			if o.foreign != foreign {
				return 0
			}
			return min(o.ready, idle+len(chosen))
		}
	}
	before := len(chosen)
	chosen = h.pick(site, offers, idle, quota(false), left, chosen)
	idle -= len(chosen) - before
	if idle <= 0 {
		return chosen
	}
	return h.pick(site, offers, idle, quota(true), left, chosen)
}

// pick adds to the chosen at most limit tasks that were ready by the given
// time and whose inputs the site can read.
func (h *handing) pick(site *SiteRecord, offers []offer, limit int, quota func(*offer) int, by Instant, chosen []task.ID) []task.ID {
	taken := make(map[task.ID]struct{}, len(chosen))
	for _, id := range chosen {
		taken[id] = struct{}{}
	}
	quotas := make(map[ClassID]int, len(offers))
	for i := range offers {
		if n := min(quota(&offers[i]), limit+len(chosen)); n > 0 {
			quotas[offers[i].class.ID] = n
		}
	}
	left := make(map[task.ID]ClassID) // tasks that another site gets first
	free := func(s *TaskState) bool {
		_, again := taken[s.ID]
		if again || h.givenAway(site, s) {
			return false
		}
		other, _ := h.elsewhere.left(site, s, h.classes.known.byID[s.Class])
		if other != "" {
			left[s.ID] = s.Class
		}
		return other == ""
	}
	found := h.inOrder(quotas, by, limit, len(chosen), free)
	if len(left) > 0 && len(found) < limit { // others come behind them
		clear(left)
		h.classByClass(quotas, by, free)
		for _, class := range left {
			quotas[class]++
		}
		found = h.classByClass(quotas, by, free)
	}
	found = found[:max(0, min(limit, len(found)))]
	ids := make([]task.ID, len(found))
	for i, s := range found {
		ids[i] = s.ID
	}
	for part := range slices.Chunk(ids, pickStep) {
		if h.bytes >= mostBytes {
			break
		}
		h.loadInputs(part)
		for _, id := range part {
			switch spec := h.specs.held[id]; {
			case spec == nil || !h.readsAll(site, spec):
				h.life.review(id) // its class is older than the site's settings
			case h.has(id):
				chosen = append(chosen, id)
			}
		}
	}
	return chosen
}

// pickStep is how many tasks are looked at before it is known whether they are too many.
const pickStep = 500

// givenAway tells whether a site gave the task back only just, because
// another was to have it.
func (h *handing) givenAway(site *SiteRecord, s *TaskState) bool {
	return s.Recalled && s.Site == site.Name && h.Clock.Sub(s.NotBefore) < h.config.HandOut.ShareWait
}

func (h *handing) readsAll(site *SiteRecord, spec *task.Task) bool {
	return !slices.ContainsFunc(spec.Inputs, func(in task.Input) bool { return !site.Reads(h.files.held[in.LFN]) })
}
