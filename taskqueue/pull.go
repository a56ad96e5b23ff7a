package taskqueue

import (
	"cmp"
	"fmt"
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
// Errors: ErrNotFound (site or pilot), ErrRefused (a pilot of another site,
// or one whose membership was revoked).
func (r *Rules) Pull(t *Turn, p *task.Pull, capacity task.Capacity) (Pulled, error) {
	var out Pulled
	err := r.apply(t, func(q *queue) error {
		out = Pulled{}
		site, err := q.site(p.Site)
		if err != nil {
			return err
		}
		pilot, err := q.office.claimant(site, p.Pilot)
		if err != nil {
			return err
		}
		if pilot.State == PilotDead && site.InForce().Central() {
			q.members.revive(site, pilot) // nobody but itself tells that it lives
		}
		reply := &out.Reply
		if reply.Acks, err = q.takePulled(site, pilot, p); err != nil {
			return err
		}
		if err := q.ready.settle(); err != nil {
			return err
		}
		// The scans below must see what this turn has changed.
		if err := q.save(); err != nil {
			return err
		}
		if site.InForce().Central() {
			site.Capacity = capacity
			if out.Unseen, err = q.leasing.answerPilot(site, pilot, p, reply); err != nil {
				return err
			}
		}
		if reply.Revoked, err = q.leasing.revocationsOf(p); err != nil {
			return err
		}
		q.members.markPull(site, p)
		if slices.Contains(site.Drain, pilot.ID) {
			reply.Drain = []task.PilotID{pilot.ID}
		}
		reply.Denied, reply.ReportSeq, reply.Roll, reply.Settings = site.Denied, p.Report.Seq, site.Roll, r.Settings(*site)
		out.Site, out.Pilot = *site, *pilot
		return nil
	})
	return out, err
}

// takePulled books everything that a pilot reports. A class that it cannot run
// is its own matter: only the returns count.
func (q *queue) takePulled(site *SiteRecord, pilot *PilotRecord, p *task.Pull) ([]task.Ack, error) {
	if err := q.members.heard(site); err != nil {
		return nil, err
	}
	// Of a site of one, or as the queue judges its node.
	q.members.stopped(site, pilot, cmp.Or(p.Capacity.StoppedWhy, site.setBack(q.Clock, pilot)))
	acks, err := q.takeOutcomes(site, p.Outcomes)
	if err != nil {
		return nil, err
	}
	for i := range p.Lost {
		p.Lost[i].Pilot = pilot.ID
	}
	for _, step := range []func() error{
		func() error { return q.outcomes.takeStored(site, p.Stored) },
		func() error { return q.takeStarts(site, p.Starts) },
		func() error { return q.leasing.takeReturns(site.Name, p.Returns) },
		func() error { return q.meetSelf(site, pilot, &p.Sync) },
		func() error { return q.catalogue.lose(site.Name, p.Lost) },
		func() error { return q.leasing.takeConfirmed(site.Name, p.Confirmed) },
		func() error { return q.members.takeOwnReport(pilot, p.Report) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return acks, nil
}

// meetSelf books what a pilot that speaks for itself says to have in hand.
func (q *queue) meetSelf(site *SiteRecord, pilot *PilotRecord, s *task.Sync) error {
	if !slices.Contains(s.Joined, pilot.ID) {
		return nil
	}
	return q.outcomes.runsOnly(site, pilot, setOf(s.InHand))
}

// takeOwnReport adds a pilot's report of storage reads, each report once.
func (m *members) takeOwnReport(pilot *PilotRecord, report task.SiteReport) error {
	if report.Seq == 0 || report.Seq <= pilot.ReportSeq {
		return nil
	}
	pilot.ReportSeq = report.Seq
	m.pilots.touch(pilot.ID)
	return m.addReads(report.SEReads)
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
func (r *Rules) HeardPull(t *Turn, name task.Site, capacity task.Capacity) error {
	return r.apply(t, func(q *queue) error {
		site, err := q.site(name)
		if err != nil || q.Clock.Sub(site.LastPull) < q.config.Site.MarkEvery {
			return err
		}
		site.LastPull = q.Clock
		if site.InForce().Central() {
			site.Capacity = capacity
		}
		q.sites.touch(name)
		return nil
	})
}

// answerPilot renews the leases that a pilot holds, tells which of them are
// over, and sends again in full those that it does not know of. Of a former
// master's leases it gets the tasks that it has in hand. It returns how many
// tasks the pilot did not know of.
func (l *leasing) answerPilot(site *SiteRecord, pilot *PilotRecord, p *task.Pull, reply *task.PullReply) (unseen int, err error) {
	own, err := l.Leases().OfPilot(pilot.ID)
	if err != nil {
		return 0, fmt.Errorf("load leases of pilot %s: %w", pilot.ID, err)
	}
	known := make(map[task.LeaseID]bool, len(own))
	for i := range own {
		if own[i].Site != site.Name {
			continue
		}
		if l.leases.held[own[i].ID] == nil {
			l.leases.put(own[i].ID, &own[i])
		}
		lease := l.leases.held[own[i].ID]
		known[lease.ID] = true
		l.renewLease(lease)
		if l.holds(&p.Sync, lease) {
			continue
		}
		full, err := l.fullLease(site, lease)
		if err != nil {
			return 0, err
		}
		unseen += len(full.Tasks)
		reply.Leases = append(reply.Leases, full)
	}
	if err := l.answerHolding(site, p, known, reply); err != nil {
		return 0, err
	}
	for _, id := range p.Leases {
		if !known[id] {
			reply.Unknown = append(reply.Unknown, id)
		}
	}
	return unseen, nil
}

// answerHolding gives a pilot its part of the leases that a former master has
// left behind.
func (l *leasing) answerHolding(site *SiteRecord, p *task.Pull, known map[task.LeaseID]bool, reply *task.PullReply) error {
	if !site.Orphans {
		return nil
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
	if err := l.leases.load(order...); err != nil {
		return err
	}
	for _, id := range order {
		lease := l.leases.held[id]
		if lease == nil || lease.Site != site.Name || lease.Pilot != "" {
			continue
		}
		if err := l.tasks.load(inHand[id]...); err != nil {
			return err
		}
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
		part, err := l.writeLease(site, lease, still)
		if err != nil {
			return err
		}
		reply.Leases = append(reply.Leases, part)
	}
	return nil
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
// included.
func (l *leasing) revocationsOf(p *task.Pull) ([]task.Revoked, error) {
	if err := l.life.saveRevocations(); err != nil {
		return nil, fmt.Errorf("save revocations: %w", err)
	}
	leases := slices.Clone(p.Leases)
	inHand := make(map[task.ID]bool, len(p.Holding))
	for _, h := range p.Holding {
		leases = append(leases, h.Lease)
		inHand[h.Task] = true
	}
	if len(leases) == 0 {
		return nil, nil
	}
	open, err := l.Leases().Revocations(p.Site, leases...)
	if err != nil {
		return nil, fmt.Errorf("load revocations of %s: %w", p.Site, err)
	}
	if err := l.leases.load(leases...); err != nil {
		return nil, err
	}
	var revoked []task.Revoked
	for _, r := range open {
		// A former master's lease has tasks at other pilots too.
		if lease := l.leases.held[r.Lease]; lease != nil && lease.Pilot == p.Pilot || inHand[r.Task] {
			revoked = append(revoked, task.Revoked{Lease: r.Lease, Task: r.Task, Cancel: r.Cancel})
		}
	}
	return revoked, nil
}

// Grant leases tasks to a pilot that were matched to it. Those that are not to
// be had any more, or that its site cannot read, are left out.
//
// Errors: ErrNotFound (site or pilot).
func (r *Rules) Grant(t *Turn, name task.Site, id task.PilotID, tasks []task.ID) (task.Lease, error) {
	var granted task.Lease
	err := r.apply(t, func(q *queue) error {
		granted = task.Lease{}
		site, err := q.site(name)
		if err != nil {
			return err
		}
		if err := q.pilots.load(id); err != nil {
			return err
		}
		pilot := q.pilots.held[id]
		if pilot == nil {
			return fmt.Errorf("%w: pilot %s", ErrStranger, id)
		}
		if !site.InForce().Central() || site.Draining || pilot.State != PilotAlive || pilot.Site != name {
			return nil
		}
		if err := q.tasks.load(tasks...); err != nil {
			return err
		}
		if err := q.loadInputs(tasks); err != nil {
			return err
		}
		h := q.handing(site, id)
		for _, id := range tasks {
			s, spec := q.tasks.held[id], q.specs.held[id]
			if s == nil || spec == nil || s.State != task.Ready || s.NotBefore > q.Clock || !q.readsAll(site, spec) {
				continue
			}
			if err := h.lend(id); err != nil {
				return err
			}
		}
		granted, err = h.granted()
		return err
	})
	return granted, err
}

// Dismiss takes pilots for dead that have fallen silent in a mode in which
// nobody else would tell: what they held is free again.
//
// Errors: ErrNotFound (the site).
func (r *Rules) Dismiss(t *Turn, name task.Site, pilots []task.PilotID, reason string) error {
	return r.apply(t, func(q *queue) error {
		site, err := q.site(name)
		if err != nil || !site.InForce().Central() {
			return err
		}
		if err := q.pilots.load(pilots...); err != nil {
			return err
		}
		for _, id := range pilots {
			pilot := q.pilots.held[id]
			if pilot == nil || pilot.Site != name || !pilot.State.present() {
				continue
			}
			if err := q.dismiss(site, pilot, PilotDead, reason); err != nil {
				return err
			}
		}
		if site.Pilots <= 0 {
			return q.vacate(site, "its last pilot fell silent")
		}
		return nil
	})
}

// Lose books that no pilot of a site holds files any more that no storage
// element has.
//
// Errors: ErrNotFound (the site).
func (r *Rules) Lose(t *Turn, name task.Site, lost []task.LostFile) error {
	return r.apply(t, func(q *queue) error {
		if _, err := q.site(name); err != nil {
			return err
		}
		return q.catalogue.lose(name, lost)
	})
}
