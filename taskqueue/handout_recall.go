package taskqueue

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// recallForIdle has sites that have slots to spare, and to which no READY task may go,
// ask others for some of what these hold beyond their shares. It reads before the turn
// changes anything.
func (q *queue) recallForIdle() {
	ready := read(q.Tasks().ReadyClasses())
	for site := range q.sites.all() {
		if idle := site.idle(); idle > 0 && site.takes() && q.sites.live(site) {
			if h := q.handing(site, ""); len(h.offers(site, ready)) == 0 {
				h.recall(site, idle)
				q.life.saveRevocations() // the next one asks for others
			}
		}
	}
}

// recall asks the site with most work beyond its share for some of its newest
// unstarted tasks that an idle site can run.
func (h *handing) recall(site *SiteRecord, idle int) {
	work, slots := 0, 0
	for s := range h.sites.all() {
		if s == site || h.sites.live(s) {
			work, slots = work+s.Leased, slots+s.slots()
		}
	}
	var donor *SiteRecord
	most := 0
	for s := range h.sites.all() {
		if s == site || s.Leased == 0 || s.slots() == 0 {
			continue
		}
		excess := min(s.Leased-(work*s.slots()+slots-1)/slots, -s.idle())
		if excess > s.slots()/4 && excess > most {
			donor, most = s, excess
		}
	}
	if donor == nil {
		return
	}
	pending := read(h.Leases().Revocations(donor.Name))
	asked := make(map[task.ID]struct{}, len(pending))
	for _, r := range pending {
		asked[r.Task] = struct{}{}
	}
	n := min(most, h.config.HandOut.FloorTasks*idle) - len(asked)
	if n <= 0 {
		return
	}
	found := h.recallable(donor, site, n, asked)
	var recalled []task.ID
	for _, r := range found {
		if len(recalled) == n {
			break
		}
		h.life.revoke(donor.Name, r.lease, r.id, false)
		recalled = append(recalled, r.id)
	}
	h.recallReaders(donor, recalled)
}

// recallable is an unstarted task that another site could run.
type recallable struct {
	lease task.LeaseID
	id    task.ID
}

// recallable walks the donor's leases from the newest and lists what an idle
// site can run: tasks that do not prefer the donor, at most n, then those that do.
func (h *handing) recallable(donor, site *SiteRecord, n int, asked map[task.ID]struct{}) []recallable {
	open := read(h.Leases().OfSite(donor.Name))
	var others, own []recallable
	scan := h.config.HandOut.RecallScan
	for _, lease := range slices.Backward(open) {
		states := read(h.Tasks().InLease(lease.ID))
		states = states[max(0, len(states)-scan):]
		scan -= len(states)
		h.tasks.hold(states)
		ids := keysOf(states, func(s *TaskState) task.ID { return s.ID })
		h.loadInputs(ids)
		for _, id := range slices.Backward(ids) {
			if _, already := asked[id]; already {
				continue
			}
			switch {
			case !h.mayRecall(id, lease.ID, site):
			case h.classes.prefers(donor.Name, h.specs.held[id]):
				own = append(own, recallable{lease.ID, id})
			default:
				others = append(others, recallable{lease.ID, id})
			}
			if len(others) == n {
				return others
			}
		}
		if scan <= 0 {
			break
		}
	}
	return append(others, own...)
}

// mayRecall tells whether a task of a lease is unstarted and fit for another
// site. It is loaded, with its inputs.
func (h *handing) mayRecall(id task.ID, lease task.LeaseID, site *SiteRecord) bool {
	s, spec := h.tasks.held[id], h.specs.held[id]
	if spec == nil || s.State != task.Leased || s.Lease != lease || s.Missing > 0 ||
		!h.readsAll(site, spec) || h.sites.refuses(site, spec.Class()) || s.Final && site.SE == "" && h.sites.stores(s.Site) {
		return false
	}
	return !h.attempts.started(s)
}

// recallReaders has tasks go along that a site was to run once it had made what
// it is now asked to give back: who makes files reads them.
func (h *handing) recallReaders(donor *SiteRecord, makers []task.ID) {
	readers := h.readersBelow(makers, len(makers))
	h.tasks.load(readers...)
	for _, id := range readers {
		if s := h.tasks.held[id]; s != nil && s.State == task.Leased && s.Site == donor.Name && s.Missing > 0 {
			h.life.revoke(donor.Name, s.Lease, id, false)
		}
	}
}
