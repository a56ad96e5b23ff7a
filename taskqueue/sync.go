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
	err := r.apply(t, func(q *queue) error {
		site, err := q.site(s.Site)
		if err != nil {
			return err
		}
		if s.Term != site.Term || s.Pilot != "" && s.Pilot != site.Master {
			return &StaleTermError{Site: s.Site, Given: s.Term, Office: site.Term, Master: site.Master}
		}
		if reply.Acks, err = q.takeNews(site, &s); err != nil {
			return err
		}
		if err := q.ready.settle(); err != nil {
			return err
		}
		// The scans below must see what this turn has changed.
		if err := q.save(); err != nil {
			return err
		}
		if !site.InForce().Central() {
			if err := q.leasing.answerLeases(site, &s, &reply); err != nil {
				return err
			}
		}
		if err := q.handing(site, "").handOut(&reply); err != nil {
			return err
		}
		if reply.Check, err = q.catalogue.unguarded(site); err != nil {
			return err
		}
		q.members.mark(site)
		if reply.Revoked, err = q.leasing.revocations(site.Name); err != nil {
			return err
		}
		reply.Denied, reply.Drain, reply.ReportSeq, reply.Roll = site.Denied, q.members.toDrain(site), s.Report.Seq, site.Roll
		reply.Nodes = q.members.nodes(site, &s)
		reply.Settings = r.Settings(*site)
		return nil
	})
	if err != nil {
		return task.SyncReply{}, err
	}
	return reply, nil
}

// takeNews books everything that a Sync reports.
func (q *queue) takeNews(site *SiteRecord, s *task.Sync) ([]task.Ack, error) {
	if err := q.members.heard(site); err != nil {
		return nil, err
	}
	q.members.takeCapacity(site, s.Capacity)
	q.members.takeNodes(site, s)
	acks, err := q.takeOutcomes(site, s.Outcomes)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return q.outcomes.takeStored(site, s.Stored) },
		func() error { return q.takeStarts(site, s.Starts) },
		func() error { return q.leasing.takeReturns(site.Name, s.Returns) },
		func() error { return q.members.takeRefusals(site, s.Refused) },
		func() error { return q.depart(site, s.Departed) },
		func() error { return q.outcomes.takeGivenUp(site) },
		func() error { return q.meet(site, s.Joined, s.InHand) },
		func() error { return q.members.takePauses(site, s.Pauses) },
		func() error { return q.catalogue.lose(site.Name, s.Lost) },
		func() error { return q.leasing.takeConfirmed(site.Name, s.Confirmed) },
		func() error { return q.members.takeReport(site, s.Term, s.Report) },
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
func (m *members) takeCapacity(site *SiteRecord, capacity task.Capacity) {
	if site.InForce().Central() {
		return // its pilots tell it
	}
	before := site.Capacity
	site.Capacity = capacity
	before.CacheBytes, before.CacheUsed, before.Evictions = capacity.CacheBytes, capacity.CacheUsed, capacity.Evictions
	before.Damaged = capacity.Damaged
	if before != capacity {
		m.sites.touch(site.Name)
	}
}

// mark keeps the site's sign of life, no more exactly than MarkEvery, so that
// idle Syncs need not be durable.
func (m *members) mark(site *SiteRecord) {
	if m.Clock.Sub(site.LastSync) >= m.config.Site.MarkEvery {
		m.sites.touch(site.Name)
	}
	if _, saving := m.sites.changed[site.Name]; saving {
		site.LastSync = m.Clock
	}
}

// Heard notes a sign of life of a site's master without a Sync: a server
// calls it while it parks one. A stale term is ignored.
func (r *Rules) Heard(t *Turn, name task.Site, term task.Term) error {
	return r.apply(t, func(q *queue) error {
		site, err := q.site(name)
		if err != nil || site.Term != term || q.Clock.Sub(site.LastSync) < q.config.Site.MarkEvery {
			return err
		}
		site.LastSync = q.Clock
		q.sites.touch(name)
		return nil
	})
}

// loadReports loads what is known of attempts that a site reports on.
func (j *outcomes) loadReports(ids []task.AttemptID) error {
	tasks, pilots := make([]task.ID, len(ids)), make([]task.PilotID, len(ids))
	for i, id := range ids {
		tasks[i], pilots[i] = id.Task, id.Pilot
	}
	if err := j.attempts.load(ids...); err != nil {
		return err
	}
	if err := j.pilots.load(pilots...); err != nil {
		return err
	}
	return j.tasks.load(tasks...)
}

// strangers has pilots leave that a site's master speaks of and that the queue
// does not know: it was put back to an earlier state than their registration, and
// would never accept what they do. They may be gone, so they are asked for a while
// only; who is there is heard of again.
func (m *members) strangers(site *SiteRecord, pilots []task.PilotID) error {
	if err := m.pilots.load(pilots...); err != nil {
		return err
	}
	for _, id := range pilots {
		known := func(s Stranger) bool { return s.Pilot == id }
		if id != "" && m.pilots.held[id] == nil && !slices.ContainsFunc(site.Strangers, known) {
			site.Strangers = append(site.Strangers, Stranger{Pilot: id, At: m.Clock})
			m.sites.touch(site.Name)
		}
	}
	return nil
}

// strangerFor is how long a stranger is asked to leave.
const strangerFor = 10 * time.Minute

// toDrain lists the pilots of a site that are to leave.
func (m *members) toDrain(site *SiteRecord) []task.PilotID {
	before := len(site.Strangers)
	site.Strangers = slices.DeleteFunc(site.Strangers, func(s Stranger) bool { return m.Clock.Sub(s.At) > strangerFor })
	if len(site.Strangers) < before {
		m.sites.touch(site.Name)
	}
	drain := site.Drain
	for _, s := range site.Strangers {
		drain = append(slices.Clip(drain), s.Pilot)
	}
	return drain
}

// ran tells whether a site may report on an attempt: it names a pilot of the
// site and a lease by which the site held the task. All is loaded.
func (j *outcomes) ran(site task.Site, id task.AttemptID) bool {
	s, pilot := j.tasks.held[id.Task], j.pilots.held[id.Pilot]
	return s != nil && pilot != nil && pilot.Site == site && s.leasedTo(site, id)
}

// takeStarts records attempts that have begun. One whose pilot is gone, as the
// site may tell late, is lost.
func (j *outcomes) takeStarts(site *SiteRecord, starts []task.Start) error {
	if err := j.loadReports(keysOf(starts, func(s *task.Start) task.AttemptID { return s.Attempt })); err != nil {
		return err
	}
	for _, start := range starts {
		if j.attempts.held[start.Attempt] != nil || !j.ran(site.Name, start.Attempt) {
			continue
		}
		a, err := j.begun(task.Outcome{Attempt: start.Attempt, Number: start.Number, Site: site.Name, Started: start.Started})
		if err != nil {
			return err
		}
		if a.State == AttemptLost {
			if err := j.catalogue.discardLosers(j.tasks.held[start.Attempt.Task]); err != nil {
				return err
			}
		}
	}
	return nil
}

// begun books an attempt that was not known before; without its pilot it is lost.
func (j *outcomes) begun(o task.Outcome) (*Attempt, error) {
	if err := j.number(&o); err != nil {
		return nil, err
	}
	a := &Attempt{State: AttemptRunning, Outcome: o, Known: j.Clock}
	if pilot := j.pilots.held[o.Attempt.Pilot]; !pilot.State.present() {
		a.State, a.Outcome.Failure, a.Outcome.Reason = AttemptLost, task.PilotLost, pilot.Reason
	}
	j.attempts.put(o.Attempt, a)
	j.attempts.touch(o.Attempt)
	return a, nil
}

// number gives an attempt that was not known before a display number that no other
// of its task has: the one that its site gave it, or the next. Parts of a site, and
// masters one after the other, do not know all of each other's attempts.
func (j *outcomes) number(o *task.Outcome) error {
	s := j.tasks.held[o.Attempt.Task]
	next, said := max(1, s.Number), o.Number
	if said < next || said-next > numbersAhead {
		o.Number = next
	}
	if 0 < said && said < next {
		attempts, err := j.attemptsOf(s.ID)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(attempts, func(a *Attempt) bool { return a.Outcome.Number == said }) {
			o.Number = said
		}
	}
	s.Number = max(next, o.Number+1)
	j.tasks.touch(s.ID)
	return nil
}

// numbersAhead is how many attempts of a task its site may have lost sight of before
// it tells of one.
const numbersAhead = 100

// takeStored books copies that have reached the site's own storage element. A
// copy that cannot count any more is garbage; one whose attempt may still be
// accepted waits with the attempt. What is stored elsewhere, or by no attempt, is
// not ours.
func (j *outcomes) takeStored(site *SiteRecord, stored []task.Stored) error {
	stored = slices.DeleteFunc(slices.Clone(stored), func(st task.Stored) bool {
		return st.Attempt.Task == "" || !site.holds(st.URL)
	})
	names := make([]task.LFN, len(stored))
	ids := make([]task.AttemptID, len(stored))
	for i := range stored {
		names[i], ids[i] = stored[i].LFN, stored[i].Attempt
	}
	if err := j.files.load(names...); err != nil {
		return err
	}
	if err := j.loadReports(ids); err != nil {
		return err
	}
	var garbage []task.Replica
	for i := range stored {
		st := &stored[i]
		f, attempt := j.files.held[st.LFN], j.attempts.held[st.Attempt]
		replica := task.Replica{Site: site.Name, URL: st.URL}
		switch {
		case f == nil:
		case f.Producer == st.Attempt:
			if err := j.catalogue.replicate(f, replica); err != nil {
				return err
			}
		case f.ProducerTask != st.Attempt.Task || !j.ran(site.Name, st.Attempt):
		case j.tasks.held[st.Attempt.Task].awaits(st.Attempt, attempt):
			if err := j.storedEarly(site.Name, st, attempt); err != nil {
				return err
			}
		case useless(f, st.Attempt, attempt) && site.wrote(st.Attempt, st.LFN, st.URL):
			garbage = append(garbage, replica)
		}
	}
	return saveAll(garbage, j.Files().AddGarbage)
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
func (j *outcomes) storedEarly(site task.Site, st *task.Stored, attempt *Attempt) (err error) {
	if attempt == nil {
		if attempt, err = j.begun(task.Outcome{Attempt: st.Attempt, Site: site}); err != nil {
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
		j.attempts.touch(st.Attempt)
	}
	return nil
}

// takeReturns takes unstarted tasks back.
func (l *leasing) takeReturns(site task.Site, returns []task.Returned) error {
	ids := make([]task.ID, len(returns))
	for i := range returns {
		ids[i] = returns[i].Task
	}
	if err := l.tasks.load(ids...); err != nil {
		return err
	}
	recalled, err := l.recalled(site, len(returns) > 0)
	if err != nil {
		return err
	}
	var answered []Revocation
	for _, back := range returns {
		answered = append(answered, Revocation{Site: site, Lease: back.Lease, Task: back.Task})
		s := l.tasks.held[back.Task]
		if s == nil || s.State != task.Leased || s.Lease != back.Lease || s.Site != site || s.Generation != back.Generation {
			continue
		}
		if err := l.life.reopen(s, task.Return, back.Reason); err != nil {
			return err
		}
		s.Recalled = recalled[back.Task]
	}
	return saveAll(answered, l.Leases().Confirm)
}

// recalled returns the tasks that a site was asked to give back.
func (l *leasing) recalled(site task.Site, wanted bool) (map[task.ID]bool, error) {
	if !wanted {
		return nil, nil
	}
	open, err := l.Leases().Revocations(site)
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
func (l *leasing) takeConfirmed(site task.Site, confirmed []task.Revoked) error {
	if len(confirmed) == 0 {
		return nil
	}
	ids := make([]task.ID, len(confirmed))
	answered := make([]Revocation, len(confirmed))
	for i, c := range confirmed {
		ids[i] = c.Task
		answered[i] = Revocation{Site: site, Lease: c.Lease, Task: c.Task}
	}
	if err := l.tasks.load(ids...); err != nil {
		return err
	}
	for _, c := range confirmed {
		s := l.tasks.held[c.Task]
		if c.Cancel || s == nil || s.State != task.Leased || s.Lease != c.Lease || s.Site != site {
			continue
		}
		running, err := l.started(s)
		if err != nil {
			return err
		}
		if running {
			continue
		}
		if err := l.life.reopen(s, task.Return, "recalled"); err != nil {
			return err
		}
		s.Recalled = true
	}
	return l.Leases().Confirm(answered...)
}

// revocations returns what a site is asked to drop, those of this turn
// included.
func (l *leasing) revocations(site task.Site) ([]task.Revoked, error) {
	if err := l.life.saveRevocations(); err != nil {
		return nil, fmt.Errorf("save revocations: %w", err)
	}
	open, err := l.Leases().Revocations(site)
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
func (l *leasing) holds(s *task.Sync, lease *Lease) bool {
	i := slices.Index(s.Leases, lease.ID)
	return i >= 0 && (i >= len(s.Tasks) || s.Tasks[i] >= lease.Open)
}

// answerLeases renews the leases that a master holds, tells which of them are
// over, and sends again in full those of which it does not know, or not of every
// task: a queue that was put back to a backup has forgotten outcomes.
func (l *leasing) answerLeases(site *SiteRecord, s *task.Sync, reply *task.SyncReply) error {
	// The turn's own changes come first: what they emptied is over.
	if err := l.life.saveLeases(); err != nil {
		return fmt.Errorf("save leases: %w", err)
	}
	open, err := l.Leases().OfSite(site.Name)
	if err != nil {
		return fmt.Errorf("load leases of %s: %w", site.Name, err)
	}
	known := make(map[task.LeaseID]bool, len(s.Leases))
	for i := range open {
		lease := &open[i]
		if lease.Pilot != "" {
			continue // not the master's
		}
		if l.leases.held[lease.ID] == nil {
			l.leases.put(lease.ID, lease)
		}
		lease = l.leases.held[lease.ID]
		known[lease.ID] = true
		if !l.holds(s, lease) {
			again, err := l.fullLease(site, lease)
			if err != nil {
				return err
			}
			reply.Leases = append(reply.Leases, again)
		}
		l.renewLease(lease)
	}
	for _, id := range s.Leases {
		if !known[id] {
			reply.Unknown = append(reply.Unknown, id)
		}
	}
	return l.numberBeyond(reply.Unknown)
}
