package taskqueue

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Sync takes what a site's master tells, in full, and answers with work,
// acknowledgements and wishes. A Sync that tells nothing new and gets nothing
// new writes nothing, but for the mark of the last Sync every MarkEvery.
//
// A recalled task comes back as a return, or the recall is confirmed: then it
// counts as returned unless an attempt of it is known to run.
//
// Errors: ErrNotFound (the site), *StaleTermError.
func (r *Rules) Sync(t *Turn, s task.Sync) (task.SyncReply, error) {
	var reply task.SyncReply
	err := r.apply(t, func(b *book) error {
		site, err := b.site(s.Site)
		if err != nil {
			return err
		}
		if s.Term != site.Term || s.Pilot != "" && s.Pilot != site.Master {
			return &StaleTermError{Site: s.Site, Given: s.Term, Office: site.Term, Master: site.Master}
		}
		if reply.Acks, err = b.takeNews(site, &s); err != nil {
			return err
		}
		if err := b.settle(); err != nil {
			return err
		}
		// The scans below must see what this turn has changed.
		if err := b.save(); err != nil {
			return err
		}
		if !site.InForce().Central() {
			if err := b.answerLeases(site, &s, &reply); err != nil {
				return err
			}
		}
		if err := b.handOut(site, &reply); err != nil {
			return err
		}
		if reply.Check, err = b.unguarded(site); err != nil {
			return err
		}
		b.mark(site)
		if reply.Revoked, err = b.revocations(site.Name); err != nil {
			return err
		}
		reply.Denied, reply.Drain, reply.ReportSeq, reply.Roll = site.Denied, b.toDrain(site), s.Report.Seq, site.Roll
		reply.Nodes = b.nodes(site, &s)
		reply.Settings = r.Settings(*site)
		return nil
	})
	if err != nil {
		return task.SyncReply{}, err
	}
	return reply, nil
}

// takeNews books everything that a Sync reports.
func (b *book) takeNews(site *SiteRecord, s *task.Sync) ([]task.Ack, error) {
	if err := b.heard(site); err != nil {
		return nil, err
	}
	b.takeCapacity(site, s.Capacity)
	b.takeNodes(site, s)
	acks, err := b.takeOutcomes(site, s.Outcomes)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return b.takeStored(site, s.Stored) },
		func() error { return b.takeStarts(site, s.Starts) },
		func() error { return b.takeReturns(site.Name, s.Returns) },
		func() error { return b.takeRefusals(site, s.Refused) },
		func() error { return b.depart(site, s.Departed) },
		func() error { return b.takeGivenUp(site) },
		func() error { return b.meet(site, s.Joined, s.InHand) },
		func() error { return b.takePauses(site, s.Pauses) },
		func() error { return b.lose(site.Name, s.Lost) },
		func() error { return b.takeConfirmed(site.Name, s.Confirmed) },
		func() error { return b.takeReport(site, s.Term, s.Report) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return acks, nil
}

// takeCapacity keeps what a master says of its site's pilots. What hand-outs
// go by is saved at once; figures for people, which change all the time,
// together with the mark of a Sync.
func (b *book) takeCapacity(site *SiteRecord, capacity task.Capacity) {
	if site.InForce().Central() {
		return // its pilots tell it
	}
	before := site.Capacity
	site.offer(capacity)
	before.CacheBytes, before.CacheUsed, before.Evictions = capacity.CacheBytes, capacity.CacheUsed, capacity.Evictions
	before.Damaged = capacity.Damaged
	before.Optimality = capacity.Optimality
	if before != capacity {
		b.sites.touch(site.Name)
	}
}

// offer notes what a site has to give.
func (s *SiteRecord) offer(capacity task.Capacity) {
	s.Capacity, s.Slots, s.FreeSlots = capacity, capacity.Slots, capacity.FreeSlots
}

// mark keeps the site's sign of life, no more exactly than MarkEvery, so that
// idle Syncs need not be durable.
func (b *book) mark(site *SiteRecord) {
	if b.Clock.Sub(site.LastSync) >= b.config.Site.MarkEvery {
		b.sites.touch(site.Name)
	}
	if _, saving := b.sites.changed[site.Name]; saving {
		site.LastSync = b.Clock
	}
}

// Heard notes a sign of life of a site's master without a Sync: a server
// calls it while it parks one. A stale term is ignored.
func (r *Rules) Heard(t *Turn, name task.Site, term task.Term) error {
	return r.apply(t, func(b *book) error {
		site, err := b.site(name)
		if err != nil || site.Term != term || b.Clock.Sub(site.LastSync) < b.config.Site.MarkEvery {
			return err
		}
		site.LastSync = b.Clock
		b.sites.touch(name)
		return nil
	})
}

// loadReports loads what is known of attempts that a site reports on.
func (b *book) loadReports(ids []task.AttemptID) error {
	tasks, pilots := make([]task.ID, len(ids)), make([]task.PilotID, len(ids))
	for i, id := range ids {
		tasks[i], pilots[i] = id.Task, id.Pilot
	}
	if err := b.loadAttempts(ids...); err != nil {
		return err
	}
	if err := b.loadPilots(pilots...); err != nil {
		return err
	}
	return b.loadTasks(tasks...)
}

// strangers has pilots leave that a site's master speaks of and that the queue
// does not know: it was put back to an earlier state than their registration, and
// would never accept what they do. They may be gone, so they are asked for a while
// only; who is there is heard of again. All are loaded.
func (b *book) strangers(site *SiteRecord, pilots []task.PilotID) {
	for _, id := range pilots {
		known := func(s Stranger) bool { return s.Pilot == id }
		if id != "" && b.pilots.held[id] == nil && !slices.ContainsFunc(site.Strangers, known) {
			site.Strangers = append(site.Strangers, Stranger{Pilot: id, At: b.Clock})
			b.sites.touch(site.Name)
		}
	}
}

// strangerFor is how long a stranger is asked to leave.
const strangerFor = 10 * time.Minute

// toDrain lists the pilots of a site that are to leave.
func (b *book) toDrain(site *SiteRecord) []task.PilotID {
	before := len(site.Strangers)
	site.Strangers = slices.DeleteFunc(site.Strangers, func(s Stranger) bool { return b.Clock.Sub(s.At) > strangerFor })
	if len(site.Strangers) < before {
		b.sites.touch(site.Name)
	}
	drain := site.Drain
	for _, s := range site.Strangers {
		drain = append(slices.Clip(drain), s.Pilot)
	}
	return drain
}

// ran tells whether a site may report on an attempt: it names a pilot of the
// site and a lease by which the site held the task. All is loaded.
func (b *book) ran(site task.Site, id task.AttemptID) bool {
	s, pilot := b.tasks.held[id.Task], b.pilots.held[id.Pilot]
	return s != nil && pilot != nil && pilot.Site == site && s.leasedTo(site, id)
}

// takeStarts records attempts that have begun. One whose pilot is gone, as the
// site may tell late, is lost.
func (b *book) takeStarts(site *SiteRecord, starts []task.Start) error {
	ids, pilots := make([]task.AttemptID, len(starts)), make([]task.PilotID, len(starts))
	for i := range starts {
		ids[i], pilots[i] = starts[i].Attempt, starts[i].Attempt.Pilot
	}
	if err := b.loadReports(ids); err != nil {
		return err
	}
	b.strangers(site, pilots)
	for _, start := range starts {
		if b.attempts.held[start.Attempt] != nil || !b.ran(site.Name, start.Attempt) {
			continue
		}
		a, err := b.begun(task.Outcome{Attempt: start.Attempt, Number: start.Number, Site: site.Name, Started: start.Started})
		if err != nil {
			return err
		}
		if a.State == AttemptLost {
			if err := b.discardLosers(b.tasks.held[start.Attempt.Task]); err != nil {
				return err
			}
		}
	}
	return nil
}

// begun books an attempt that was not known before; without its pilot it is lost.
func (b *book) begun(o task.Outcome) (*Attempt, error) {
	if err := b.number(&o); err != nil {
		return nil, err
	}
	a := &Attempt{State: AttemptRunning, Outcome: o, Known: b.Clock}
	if pilot := b.pilots.held[o.Attempt.Pilot]; !pilot.State.present() {
		a.State, a.Outcome.Failure, a.Outcome.Reason = AttemptLost, task.PilotLost, pilot.Reason
	}
	b.attempts.put(o.Attempt, a)
	b.attempts.touch(o.Attempt)
	return a, nil
}

// number gives an attempt that was not known before a display number that no other
// of its task has: the one that its site gave it, or the next. Parts of a site, and
// masters one after the other, do not know all of each other's attempts.
func (b *book) number(o *task.Outcome) error {
	s := b.tasks.held[o.Attempt.Task]
	next, said := max(1, s.Number), o.Number
	if said < next || said-next > numbersAhead {
		o.Number = next
	}
	if 0 < said && said < next {
		attempts, err := b.attemptsOf(s.ID)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(attempts, func(a *Attempt) bool { return a.Outcome.Number == said }) {
			o.Number = said
		}
	}
	s.Number = max(next, o.Number+1)
	b.tasks.touch(s.ID)
	return nil
}

// numbersAhead is how many attempts of a task its site may have lost sight of before
// it tells of one.
const numbersAhead = 100

// takeStored books copies that have reached the site's own storage element. A
// copy that cannot count any more is garbage; one whose attempt may still be
// accepted waits with the attempt. What is stored elsewhere, or by no attempt, is
// not ours.
func (b *book) takeStored(site *SiteRecord, stored []task.Stored) error {
	stored = slices.DeleteFunc(slices.Clone(stored), func(st task.Stored) bool {
		return st.Attempt.Task == "" || !site.holds(st.URL)
	})
	names := make([]task.LFN, len(stored))
	ids := make([]task.AttemptID, len(stored))
	for i := range stored {
		names[i], ids[i] = stored[i].LFN, stored[i].Attempt
	}
	if err := b.loadFiles(names...); err != nil {
		return err
	}
	if err := b.loadReports(ids); err != nil {
		return err
	}
	var garbage []task.Replica
	for i := range stored {
		st := &stored[i]
		f, attempt := b.files.held[st.LFN], b.attempts.held[st.Attempt]
		replica := task.Replica{Site: site.Name, URL: st.URL}
		switch {
		case f == nil:
		case f.Producer == st.Attempt:
			if err := b.replicate(f, replica); err != nil {
				return err
			}
		case f.ProducerTask != st.Attempt.Task || !b.ran(site.Name, st.Attempt):
		case b.tasks.held[st.Attempt.Task].awaits(st.Attempt, attempt):
			if err := b.storedEarly(site.Name, st, attempt); err != nil {
				return err
			}
		case useless(f, st.Attempt, attempt) && site.wrote(st.Attempt, st.LFN, st.URL):
			garbage = append(garbage, replica)
		}
	}
	return saveAll(garbage, b.Files().AddGarbage)
}

// awaits tells whether the outcome of an attempt may still be accepted: it is not
// judged, and the task is neither over nor in a later generation. An attempt that
// vanished with its pilot is not judged: the pilot may have been cut off only.
func (s *TaskState) awaits(id task.AttemptID, attempt *Attempt) bool {
	judged := attempt != nil && attempt.State != AttemptRunning && attempt.State != AttemptLost
	return !judged && !s.State.Terminal() && s.Generation == id.Generation
}

// useless tells whether nothing refers to an attempt's copy of a file that is
// not the catalogue's. What an accepted attempt has made later runs may have
// taken over, unless the catalogue has an earlier generation's file.
func useless(f *FileRecord, id task.AttemptID, attempt *Attempt) bool {
	return attempt == nil || attempt.State != AttemptSucceeded || !f.Shared ||
		!f.Producer.IsZero() && f.Producer.Generation < id.Generation
}

// storedEarly keeps a copy with its attempt until the outcome comes. An attempt of
// which the queue knows nothing else has ended, since its start would have been told
// before: after going back to a backup its outcome may never come again.
func (b *book) storedEarly(site task.Site, st *task.Stored, attempt *Attempt) (err error) {
	if attempt == nil {
		if attempt, err = b.begun(task.Outcome{Attempt: st.Attempt, Site: site}); err != nil {
			return err
		}
		if attempt.State == AttemptRunning {
			attempt.State, attempt.Outcome.Failure, attempt.Outcome.Reason = AttemptLost, task.PilotLost, "the queue was told of a copy only"
		}
	}
	known := slices.ContainsFunc(attempt.Outcome.Outputs, func(p task.Produced) bool { return p.LFN == st.LFN })
	if !known {
		attempt.Outcome.Outputs = append(attempt.Outcome.Outputs,
			task.Produced{LFN: st.LFN, Size: st.Size, Digest: st.Digest, URL: st.URL})
		b.attempts.touch(st.Attempt)
	}
	return nil
}

// takeReturns takes unstarted tasks back.
func (b *book) takeReturns(site task.Site, returns []task.Returned) error {
	ids := make([]task.ID, len(returns))
	for i := range returns {
		ids[i] = returns[i].Task
	}
	if err := b.loadTasks(ids...); err != nil {
		return err
	}
	recalled, err := b.recalled(site, len(returns) > 0)
	if err != nil {
		return err
	}
	var answered []Revocation
	for _, back := range returns {
		answered = append(answered, Revocation{Site: site, Lease: back.Lease, Task: back.Task})
		s := b.tasks.held[back.Task]
		if s == nil || s.State != task.Leased || s.Lease != back.Lease || s.Site != site || s.Generation != back.Generation {
			continue
		}
		if err := b.reopen(s, task.Return, back.Reason); err != nil {
			return err
		}
		s.Recalled = recalled[back.Task]
	}
	return saveAll(answered, b.Leases().Confirm)
}

// recalled returns the tasks that a site was asked to give back.
func (b *book) recalled(site task.Site, wanted bool) (map[task.ID]bool, error) {
	if !wanted {
		return nil, nil
	}
	open, err := b.Leases().Revocations(site)
	if err != nil {
		return nil, fmt.Errorf("load revocations of %s: %w", site, err)
	}
	recalled := make(map[task.ID]bool, len(open))
	for _, r := range open {
		recalled[r.Task] = !r.Cancel
	}
	return recalled, nil
}

// takeConfirmed drops revocations that were carried out.
func (b *book) takeConfirmed(site task.Site, confirmed []task.Revoked) error {
	if len(confirmed) == 0 {
		return nil
	}
	ids := make([]task.ID, len(confirmed))
	answered := make([]Revocation, len(confirmed))
	for i, c := range confirmed {
		ids[i] = c.Task
		answered[i] = Revocation{Site: site, Lease: c.Lease, Task: c.Task}
	}
	if err := b.loadTasks(ids...); err != nil {
		return err
	}
	for _, c := range confirmed {
		s := b.tasks.held[c.Task]
		if c.Cancel || s == nil || s.State != task.Leased || s.Lease != c.Lease || s.Site != site {
			continue
		}
		running, err := b.started(s)
		if err != nil {
			return err
		}
		if running {
			continue
		}
		if err := b.reopen(s, task.Return, "recalled"); err != nil {
			return err
		}
		s.Recalled = true
	}
	return b.Leases().Confirm(answered...)
}

// revocations returns what a site is asked to drop, those of this turn
// included.
func (b *book) revocations(site task.Site) ([]task.Revoked, error) {
	if err := b.saveRevocations(); err != nil {
		return nil, fmt.Errorf("save revocations: %w", err)
	}
	open, err := b.Leases().Revocations(site)
	if err != nil {
		return nil, fmt.Errorf("load revocations of %s: %w", site, err)
	}
	var revoked []task.Revoked
	for _, r := range open {
		revoked = append(revoked, task.Revoked{Lease: r.Lease, Task: r.Task, Cancel: r.Cancel})
	}
	return revoked, nil
}

// holds tells whether a site has all tasks of a lease in hand, by its own word.
func (b *book) holds(s *task.Sync, lease *Lease) bool {
	i := slices.Index(s.Leases, lease.ID)
	return i >= 0 && (i >= len(s.Tasks) || s.Tasks[i] >= lease.Open)
}

// answerLeases renews the leases that a master holds, tells which of them are
// over, and sends again in full those of which it does not know, or not of every
// task: a queue that was put back to a backup has forgotten outcomes.
func (b *book) answerLeases(site *SiteRecord, s *task.Sync, reply *task.SyncReply) error {
	// The book's own changes come first: what they emptied is over.
	if err := b.saveLeases(); err != nil {
		return fmt.Errorf("save leases: %w", err)
	}
	open, err := b.Leases().OfSite(site.Name)
	if err != nil {
		return fmt.Errorf("load leases of %s: %w", site.Name, err)
	}
	known := make(map[task.LeaseID]bool, len(s.Leases))
	for i := range open {
		lease := &open[i]
		if lease.Pilot != "" {
			continue // not the master's
		}
		if b.leases.held[lease.ID] == nil {
			b.leases.put(lease.ID, lease)
		}
		lease = b.leases.held[lease.ID]
		known[lease.ID] = true
		if !b.holds(s, lease) {
			again, err := b.fullLease(site, lease)
			if err != nil {
				return err
			}
			reply.Leases = append(reply.Leases, again)
		}
		b.renewLease(lease)
	}
	for _, id := range s.Leases {
		if !known[id] {
			reply.Unknown = append(reply.Unknown, id)
		}
	}
	return b.numberBeyond(reply.Unknown)
}
