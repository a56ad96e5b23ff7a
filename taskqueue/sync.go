package taskqueue

import (
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
func (r *Rules) Sync(t *Turn, s task.Sync) (reply task.SyncReply, err error) {
	q := r.open(t)
	defer q.close(&err)
	site := q.sites.need(s.Site)
	if s.Term != site.Term || s.Pilot != "" && s.Pilot != site.Master {
		end(&StaleTermError{Site: s.Site, Given: s.Term, Office: site.Term, Master: site.Master})
	}
	if q.members.overtaken(q.pilots.one(site.Master), s.Number) {
		return reply, nil
	}
	reply.Acks = q.takeNews(site, &s)
	q.ready.settle()
	// The scans below must see what this turn has changed.
	q.save()
	if !site.InForce().Central() {
		q.leasing.answerLeases(site, &s, &reply)
	}
	q.handing(site, "").handOut(&reply)
	reply.Check, reply.Drop = q.catalogue.unguarded(site)
	q.members.mark(site)
	reply.Revoked = q.leasing.revocations(site.Name)
	reply.Denied, reply.Drain, reply.ReportSeq, reply.Roll = site.Denied, q.members.toDrain(site), s.Report.Seq, site.Roll
	reply.Nodes = q.members.nodes(site, &s)
	reply.Settings = r.Settings(*site)
	return reply, nil
}

// overtaken tells whether a later call of a pilot was carried out already: its pilot has
// given this one up, and told all of it again that is still so.
func (m *members) overtaken(pilot *PilotRecord, number uint64) bool {
	if number == 0 || pilot == nil {
		return false
	}
	if number > pilot.Call {
		pilot.Call = number
		m.pilots.touch(pilot.ID)
	}
	return number < pilot.Call
}

// takeNews books everything that a Sync reports.
func (q *queue) takeNews(site *SiteRecord, s *task.Sync) []task.Ack {
	q.members.heard(site)
	q.members.takeCapacity(site, s.Capacity)
	q.members.takeNodes(site, s)
	acks := q.takeOutcomes(site, s.Outcomes)
	q.outcomes.takeStored(site, s.Stored)
	q.takeStarts(site, s.Starts)
	q.leasing.takeReturns(site.Name, s.Returns)
	q.members.takeRefusals(site, s.Refused)
	q.depart(site, s.Departed)
	q.outcomes.takeGivenUp(site)
	q.meet(site, s.Joined, s.InHand)
	q.members.takePauses(site, s.Pauses)
	q.catalogue.lose(site.Name, s.Lost)
	q.leasing.takeConfirmed(site.Name, s.Confirmed)
	q.members.takeReport(site, s.Term, s.Report)
	return acks
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
func (r *Rules) Heard(t *Turn, name task.Site, term task.Term) (err error) {
	q := r.open(t)
	defer q.close(&err)
	site := q.sites.need(name)
	if site.Term != term || q.Clock.Sub(site.LastSync) < q.config.Site.MarkEvery {
		return nil
	}
	site.LastSync = q.Clock
	q.sites.touch(name)

	return nil
}

// loadReports loads what is known of attempts that a site reports on.
func (j *outcomes) loadReports(ids []task.AttemptID) {
	tasks, pilots := make([]task.ID, len(ids)), make([]task.PilotID, len(ids))
	for i, id := range ids {
		tasks[i], pilots[i] = id.Task, id.Pilot
	}
	j.attempts.load(ids...)
	j.pilots.load(pilots...)
	j.tasks.load(tasks...)
}

// strangers has pilots leave that a site's master speaks of and that the queue
// does not know: it was put back to an earlier state than their registration, and
// would never accept what they do. They may be gone, so they are asked for a while
// only; who is there is heard of again.
func (m *members) strangers(site *SiteRecord, pilots []task.PilotID) {
	m.pilots.load(pilots...)
	for _, id := range pilots {
		known := func(s Stranger) bool { return s.Pilot == id }
		if id != "" && m.pilots.held[id] == nil && !slices.ContainsFunc(site.Strangers, known) {
			site.Strangers = append(site.Strangers, Stranger{Pilot: id, At: m.Clock})
			m.sites.touch(site.Name)
		}
	}
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
func (j *outcomes) takeStarts(site *SiteRecord, starts []task.Start) {
	j.loadReports(keysOf(starts, func(s *task.Start) task.AttemptID { return s.Attempt }))
	for _, start := range starts {
		if j.attempts.held[start.Attempt] != nil || !j.ran(site.Name, start.Attempt) {
			continue
		}
		a := j.begun(task.Outcome{Attempt: start.Attempt, Number: start.Number, Site: site.Name, Started: start.Started, Process: start.Process})
		if a.State == AttemptLost {
			j.catalogue.discardLosers(j.tasks.held[start.Attempt.Task])
		}
	}
}

// begun books an attempt that was not known before; without its pilot it is lost.
func (j *outcomes) begun(o task.Outcome) *Attempt {
	j.number(&o)
	a := &Attempt{State: AttemptRunning, Outcome: o, Known: j.Clock}
	if pilot := j.pilots.held[o.Attempt.Pilot]; !pilot.State.Present() {
		a.State, a.Outcome.Failure, a.Outcome.Reason = AttemptLost, task.PilotLost, pilot.Reason
	}
	j.attempts.put(o.Attempt, a)
	j.attempts.touch(o.Attempt)
	return a
}

// number gives an attempt that was not known before a display number that no other
// of its task has: the one that its site gave it, or the next. Parts of a site, and
// masters one after the other, do not know all of each other's attempts.
func (j *outcomes) number(o *task.Outcome) {
	s := j.tasks.held[o.Attempt.Task]
	next, said := max(1, s.Number), o.Number
	if said < next || said-next > numbersAhead {
		o.Number = next
	}
	if 0 < said && said < next {
		attempts := j.attempts.ofTask(s.ID)
		if !slices.ContainsFunc(attempts, func(a *Attempt) bool { return a.Outcome.Number == said }) {
			o.Number = said
		}
	}
	s.Number = max(next, o.Number+1)
	j.tasks.touch(s.ID)
}

// numbersAhead is how many attempts of a task its site may have lost sight of before
// it tells of one.
const numbersAhead = 100

// takeStored books copies that have reached the site's own storage element. A
// copy that cannot count any more is garbage; one whose attempt may still be
// accepted waits with the attempt. What is stored elsewhere, or by no attempt, is
// not ours.
func (j *outcomes) takeStored(site *SiteRecord, stored []task.Stored) {
	stored = slices.DeleteFunc(slices.Clone(stored), func(st task.Stored) bool {
		return st.Attempt.Task == "" || !site.holds(st.URL)
	})
	names := make([]task.LFN, len(stored))
	ids := make([]task.AttemptID, len(stored))
	for i := range stored {
		names[i], ids[i] = stored[i].LFN, stored[i].Attempt
	}
	j.files.load(names...)
	j.loadReports(ids)
	for i := range stored {
		st := &stored[i]
		f, replica := j.files.held[st.LFN], task.Replica{Site: site.Name, URL: st.URL}
		switch fate := j.catalogue.fateOf(f, st.Attempt); {
		case fate == counts:
			j.catalogue.replicate(f, replica)
		case fate == foreign || f.Going == Stays && !j.ran(site.Name, st.Attempt) && (fate == waits || j.attempts.held[st.Attempt] == nil):
		case fate == waits:
			j.storedEarly(site.Name, st, j.attempts.held[st.Attempt])
		case site.wrote(st.Attempt, st.LFN, st.URL):
			j.catalogue.discard(replica)
		}
	}
}

// storedEarly keeps a copy with its attempt until the outcome comes. An attempt of
// which the queue knows nothing else has ended, since its start would have been told
// before: after going back to a backup its outcome may never come again.
func (j *outcomes) storedEarly(site task.Site, st *task.Stored, attempt *Attempt) {
	if attempt == nil {
		attempt = j.begun(task.Outcome{Attempt: st.Attempt, Site: site})
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
}

// leasedBy returns a task if it is LEASED to a site under a lease.
func (l *leasing) leasedBy(site task.Site, lease task.LeaseID, id task.ID) *TaskState {
	if s := l.tasks.one(id); s != nil && s.State == task.Leased && s.Lease == lease && s.Site == site {
		return s
	}
	return nil
}

// takeReturns takes unstarted tasks back.
func (l *leasing) takeReturns(site task.Site, returns []task.Returned) {
	if len(returns) == 0 {
		return
	}
	l.tasks.load(keysOf(returns, func(r *task.Returned) task.ID { return r.Task })...)
	recalled := make(map[task.ID]bool)
	for _, r := range read(l.Leases().Revocations(site)) {
		recalled[r.Task] = !r.Cancel
	}
	for _, back := range returns {
		if s := l.leasedBy(site, back.Lease, back.Task); s != nil && s.Generation == back.Generation {
			l.life.reopen(s, task.Return, back.Reason)
			s.Recalled = recalled[back.Task]
		}
	}
	check(l.Leases().Confirm(keysOf(returns, func(r *task.Returned) Revocation {
		return Revocation{Site: site, Lease: r.Lease, Task: r.Task}
	})...))
}

// takeConfirmed drops revocations that were carried out. What was recalled and does
// not run is back.
func (l *leasing) takeConfirmed(site task.Site, confirmed []task.Revoked) {
	if len(confirmed) == 0 {
		return
	}
	l.tasks.load(keysOf(confirmed, func(r *task.Revoked) task.ID { return r.Task })...)
	for _, c := range confirmed {
		if s := l.leasedBy(site, c.Lease, c.Task); s != nil && !c.Cancel && !l.attempts.started(s) {
			l.life.reopen(s, task.Return, "recalled")
			s.Recalled = true
		}
	}
	check(l.Leases().Confirm(keysOf(confirmed, func(r *task.Revoked) Revocation {
		return Revocation{Site: site, Lease: r.Lease, Task: r.Task}
	})...))
}

// revocations returns what a site is asked to drop, those of this turn
// included.
func (l *leasing) revocations(site task.Site) []task.Revoked {
	l.life.saveRevocations()
	return asks(read(l.Leases().Revocations(site)))
}

func asks(open []Revocation) []task.Revoked {
	return keysOf(open, func(r *Revocation) task.Revoked { return task.Revoked{Lease: r.Lease, Task: r.Task, Cancel: r.Cancel} })
}

// holds tells whether a site has all tasks of a lease in hand, by its own word.
func (l *leasing) holds(s *task.Sync, lease *Lease) bool {
	if _, awaited := l.life.awaited[lease.ID]; awaited {
		return false
	}
	i := slices.Index(s.Leases, lease.ID)
	return i >= 0 && (i >= len(s.Tasks) || s.Tasks[i] >= lease.Open)
}

// answerLeases renews the leases that a master holds, tells which of them are
// over, and sends again in full those of which it does not know, or not of every
// task: a queue that was put back to a backup has forgotten outcomes. Where as many
// tasks came since, outcomes of readers that wait for one of a maker tell it.
func (l *leasing) answerLeases(site *SiteRecord, s *task.Sync, reply *task.SyncReply) {
	// The turn's own changes come first: what they emptied is over.
	l.life.saveLeases()
	own := slices.DeleteFunc(l.leasesOf(site.Name), func(lease *Lease) bool { return lease.Pilot != "" })
	l.tellUnknown(s, l.answer(site, own, s, reply), reply)
	l.numberBeyond(reply.Unknown)
}

// answer renews leases, and sends those again of which who holds them does not know
// every task.
func (l *leasing) answer(site *SiteRecord, own []*Lease, s *task.Sync, reply *task.SyncReply) (known map[task.LeaseID]bool) {
	known = make(map[task.LeaseID]bool, len(own))
	bytes := 0
	for _, lease := range own {
		known[lease.ID] = true
		if !l.holds(s, lease) && bytes < heldBytes { // the others with the next answers
			full := l.fullLease(site, lease)
			reply.Leases = append(reply.Leases, full)
			for i := range full.Tasks {
				bytes += l.told(&full.Tasks[i].Task)
			}
		}
		l.renewLease(lease)
	}
	return known
}

// tellUnknown names the leases that are over.
func (l *leasing) tellUnknown(s *task.Sync, known map[task.LeaseID]bool, reply *task.SyncReply) {
	for _, id := range s.Leases {
		if !known[id] {
			reply.Unknown = append(reply.Unknown, id)
		}
	}
}
