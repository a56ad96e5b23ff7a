package taskqueue

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Pulled is what came of a Pull, beside the answer: the records by which the
// pilot's tasks are matched.
type Pulled struct {
	Reply task.PullReply
	Site  SiteRecord
	Pilot PilotRecord
	// Unseen is how many tasks of its leases the pilot did not know of yet.
	Unseen int
}

// MayTake tells whether a pilot may be given tasks by the queue now.
func (p *Pulled) MayTake() bool {
	return p.Site.InForce().Central() && !p.Site.Draining && p.Pilot.State == PilotAlive
}

// Pull takes what a pilot tells that is its own master (modes centralized and
// isolated): news, as in a Sync, and renewal of its leases; capacity is that of
// the whole site. Tasks are given by Grant. Where the site has a master again,
// the news is taken all the same, and the settings in the answer say so.
//
// Errors: ErrNotFound (the site), ErrStranger, ErrRefused (a pilot of another site,
// or one whose membership was revoked).
func (r *Rules) Pull(t *Turn, p *task.Pull, capacity task.Capacity) (out Pulled, err error) {
	q := r.open(t)
	defer q.close(&err)
	site := q.sites.need(p.Site)
	pilot := q.office.claimant(site, p.Pilot)
	if q.members.overtaken(pilot, p.Number) {
		return Pulled{Site: *site, Pilot: *pilot}, nil
	}
	if pilot.State == PilotDead && site.InForce().Central() {
		q.members.revive(site, pilot) // nobody but itself tells that it lives
	}
	reply := &out.Reply
	reply.Deposed = p.Term != (task.Term{}) && (p.Term != site.Term || p.Pilot != site.Master) // as a Sync is refused
	reply.Acks = q.takePulled(site, pilot, p)
	q.ready.settle()
	// The scans below must see what this turn has changed.
	q.save()
	if site.InForce().Central() {
		site.Capacity = capacity
		out.Unseen = q.leasing.answerPilot(site, pilot, p, reply)
	}
	reply.Revoked = q.leasing.revocationsOf(p)
	q.members.markPull(site, p)
	if slices.Contains(site.Drain, pilot.ID) || pilot.outdated() {
		reply.Drain = []task.PilotID{pilot.ID}
	}
	reply.Denied, reply.ReportSeq, reply.Roll, reply.Settings = site.Denied, p.Report.Seq, site.Roll, r.Settings(*site)
	out.Site, out.Pilot = *site, *pilot
	return out, nil
}

// takePulled books everything that a pilot reports. A class that it cannot run
// is its own matter: only the returns count.
func (q *queue) takePulled(site *SiteRecord, pilot *PilotRecord, p *task.Pull) []task.Ack {
	q.members.heard(site)
	// Of a site of one, or as the queue judges its node.
	q.members.stopped(site, pilot, cmp.Or(p.Capacity.StoppedWhy, site.setBack(q.Clock, pilot)))
	acks := q.takeOutcomes(site, p.Outcomes)
	for i := range p.Lost {
		p.Lost[i].Pilot = pilot.ID
	}
	q.outcomes.takeStored(site, p.Stored)
	q.takeStarts(site, p.Starts)
	q.leasing.takeReturns(site.Name, p.Returns)
	q.outcomes.noteUnread(site, pilot, p.Returns)
	q.meetSelf(site, pilot, &p.Sync)
	q.catalogue.lose(site.Name, p.Lost)
	q.leasing.takeConfirmed(site.Name, p.Confirmed)
	q.members.takeOwnReport(pilot, p.Report)
	return acks
}

// meetSelf books what a pilot that speaks for itself says to have in hand.
func (q *queue) meetSelf(site *SiteRecord, pilot *PilotRecord, s *task.Sync) {
	if !slices.Contains(s.Joined, pilot.ID) {
		return
	}
	q.outcomes.runsOnly(site, pilot, setOf(s.InHand))
}

// takeOwnReport adds a pilot's report of storage reads, each report once.
func (m *members) takeOwnReport(pilot *PilotRecord, report task.SiteReport) {
	if report.Seq == 0 || report.Seq <= pilot.ReportSeq {
		return
	}
	pilot.ReportSeq = report.Seq
	m.pilots.touch(pilot.ID)
	m.addReads(report.SEReads)
}

// markPull keeps the site's sign of life, no more exactly than MarkEvery, and
// its master's where that one pulls.
func (m *members) markPull(site *SiteRecord, p *task.Pull) {
	if m.Clock.Sub(site.LastPull) >= m.config.Site.MarkEvery {
		m.sites.touch(site.Name)
	}
	if _, saving := m.sites.changed[site.Name]; !saving {
		return
	}
	site.LastPull = m.Clock
	if p.Term == site.Term && p.Pilot == site.Master {
		site.LastSync = m.Clock
	}
}

// HeardPull notes signs of life of a site's pilots without a Pull, and what they
// have to offer: a server calls it while it parks some.
func (r *Rules) HeardPull(t *Turn, name task.Site, capacity task.Capacity) (err error) {
	q := r.open(t)
	defer q.close(&err)
	site := q.sites.need(name)
	if q.Clock.Sub(site.LastPull) < q.config.Site.MarkEvery {
		return nil
	}
	site.LastPull = q.Clock
	if site.InForce().Central() {
		site.Capacity = capacity
	}
	q.sites.touch(name)

	return nil
}

// answerPilot renews the leases that a pilot holds, tells which of them are
// over, and sends again in full those that it does not know of. Of a former
// master's leases it gets the tasks that it has in hand. It returns how many
// tasks the pilot did not know of.
func (l *leasing) answerPilot(site *SiteRecord, pilot *PilotRecord, p *task.Pull, reply *task.PullReply) (unseen int) {
	own := l.leases.of(read(l.Leases().OfPilot(pilot.ID)))
	own = slices.DeleteFunc(own, func(lease *Lease) bool { return lease.Site != site.Name })
	known := l.answer(site, own, &p.Sync, &reply.SyncReply)
	for i := range reply.Leases {
		unseen += len(reply.Leases[i].Tasks)
	}
	l.answerHolding(site, p, known, reply)
	l.tellUnknown(&p.Sync, known, &reply.SyncReply)
	return unseen
}

// answerHolding gives a pilot its part of the leases that a former master has
// left behind.
func (l *leasing) answerHolding(site *SiteRecord, p *task.Pull, known map[task.LeaseID]bool, reply *task.PullReply) {
	if !site.Orphans {
		return
	}
	inHand := make(map[task.LeaseID][]task.ID)
	var order []task.LeaseID
	for _, h := range p.Holding {
		if known[h.Lease] {
			continue
		}
		if inHand[h.Lease] == nil {
			order = append(order, h.Lease)
		}
		inHand[h.Lease] = append(inHand[h.Lease], h.Task)
	}
	l.leases.load(order...)
	for _, id := range order {
		lease := l.leases.held[id]
		if lease == nil || lease.Site != site.Name || lease.Pilot != "" {
			continue
		}
		l.tasks.load(inHand[id]...)
		still := slices.DeleteFunc(inHand[id], func(t task.ID) bool {
			s := l.tasks.held[t]
			return s == nil || s.State != task.Leased || s.Lease != id
		})
		if len(still) == 0 {
			continue
		}
		known[id] = true
		l.renewLease(lease)
		if slices.Contains(p.Leases, id) {
			continue
		}
		reply.Leases = append(reply.Leases, l.writeLease(site, lease, still))
	}
}

// renewLease moves a lease's end, when little enough is left of it.
func (l *leasing) renewLease(lease *Lease) {
	ttl := l.config.Lease.TTL
	if lease.Expires.Sub(l.Clock) < time.Duration(l.config.Lease.RenewBelow*float64(ttl)) {
		lease.Expires = l.Clock.Add(ttl)
		l.leases.touch(lease.ID)
	}
}

// revocationsOf returns what a pilot is asked to drop, those of this turn
// included: of leases of its own, and what it has of a former master's, which has
// tasks at other pilots too.
func (l *leasing) revocationsOf(p *task.Pull) []task.Revoked {
	l.life.saveRevocations()
	var leases []task.LeaseID
	inHand := make(map[task.ID]bool, len(p.Holding))
	for _, h := range p.Holding {
		leases = append(leases, h.Lease)
		inHand[h.Task] = true
	}
	open := read(l.Leases().RevocationsOf(p.Pilot))
	if len(leases) > 0 {
		left := read(l.Leases().Revocations(p.Site, leases...))
		open = append(open, slices.DeleteFunc(left, func(r Revocation) bool { return r.Pilot == p.Pilot || !inHand[r.Task] })...)
	}
	return asks(open)
}

// Grant leases tasks to a pilot that were matched to it. Those that are not to
// be had any more, or that its site cannot read, are left out.
//
// Errors: ErrNotFound (the site), ErrStranger.
func (r *Rules) Grant(t *Turn, name task.Site, id task.PilotID, tasks []task.ID) (_ task.Lease, err error) {
	q := r.open(t)
	defer q.close(&err)
	site := q.sites.need(name)
	pilot := q.pilots.one(id)
	if pilot == nil {
		end(unknownPilot(id))
	}
	if !site.InForce().Central() || site.Draining || pilot.State != PilotAlive || pilot.Site != name {
		return task.Lease{}, nil
	}
	q.tasks.load(tasks...)
	q.loadInputs(tasks)
	h := q.handing(site, id)
	for _, id := range tasks {
		s, spec := q.tasks.held[id], q.specs.held[id]
		if s == nil || spec == nil || s.State != task.Ready || s.NotBefore > q.Clock || !h.readsAll(site, spec) || !h.has(id) {
			continue
		}
		h.lend(id)
	}
	return h.granted(), nil
}

// Care is what is to be done for a site at which the queue matches tasks: what a
// master does at other sites by itself.
type Care struct {
	Silent []task.PilotID   // not heard any more: nobody else would tell
	Lost   []task.LostFile  // that no pilot holds any more, and no storage element
	Safe   bool             // no file is in caches alone any more
	Back   []task.Revoked   // unstarted tasks that others could run
	Judged bool             // of the site's nodes is thought otherwise than before:
	Nodes  []task.NodeMark  // those that are set back
	Told   bool             // every live pilot has told what it has of a former master's tasks:
	InHand map[task.ID]bool // these
}

// Empty tells whether there is nothing to do.
func (c *Care) Empty() bool {
	return !c.Safe && !c.Judged && !c.Told && len(c.Silent)+len(c.Lost)+len(c.Back) == 0
}

// Tend does what is to be done for a site, while the queue matches its tasks.
//
// Errors: ErrNotFound (the site).
func (r *Rules) Tend(t *Turn, name task.Site, c *Care) (err error) {
	q := r.open(t)
	defer q.close(&err)
	site := q.sites.need(name)
	if !site.InForce().Central() {
		return nil
	}
	if c.Judged {
		q.members.keepNodes(site, c.Nodes)
	}
	q.dismissSilent(site, c.Silent)
	if c.Told && site.Orphans {
		q.leasing.reclaim(site, c.InHand)
	}
	if c.Safe {
		q.catalogue.unguarded(site)
	}
	q.catalogue.lose(name, c.Lost)
	for _, want := range c.Back {
		if s := q.leasing.leasedBy(name, want.Lease, want.Task); s != nil && !q.attempts.started(s) {
			q.life.revoke(name, want.Lease, want.Task, false)
		}
	}
	return nil
}

// dismissSilent takes pilots for dead that have fallen silent: what they held is free
// again.
func (q *queue) dismissSilent(site *SiteRecord, silent []task.PilotID) {
	if len(silent) == 0 {
		return
	}
	q.pilots.load(silent...)
	for _, id := range silent {
		if pilot := q.pilots.held[id]; pilot != nil && pilot.Site == site.Name && pilot.State.Present() {
			q.dismiss(site, pilot, PilotDead, "it fell silent")
		}
	}
	if site.Pilots <= 0 {
		q.vacate(site, "its last pilot fell silent")
	}
	// The scans of what follows must see it.
	q.ready.settle()
	q.save()
}
