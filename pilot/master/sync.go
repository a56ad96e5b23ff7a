package master

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// syncSoon has content sent after a delay at most.
func (o *outbox) syncSoon(at *step, delay time.Duration) {
	due := at.now.Add(delay)
	if o.due.IsZero() || due.Before(o.due) {
		o.due = due
	}
}

func (hand *handout) gatherDelay(at *step) time.Duration {
	return at.config.Queue.GatherDelay(hand.counts.running)
}

// outcomeSoon gathers outcomes.
func (o *outbox) outcomeSoon(at *step, hand *handout) {
	o.syncSoon(at, at.config.Queue.OutcomeDelay(len(o.outcomes), hand.counts.phases[ready], hand.counts.running))
}

func (o *outbox) syncDeadline(at *step, roster *roster) time.Time {
	if at.provisional || o.flight != nil || at.own.on && !roster.introduced(at) {
		return time.Time{}
	}
	next := o.due
	if o.parked.number == 0 && (next.IsZero() || o.poll.Before(next)) {
		next = o.poll
	}
	if o.failures > 0 && !next.IsZero() && next.Before(o.poll) {
		next = o.poll // not before the pause after a failure is over
	}
	return next
}

// passSync calls the queue: with content as soon as that is due, else with an
// empty call that the queue parks until it has news. A call with content ends
// the parked one.
func (m *Master) passSync() {
	o := &m.outbox
	if m.provisional || o.flight != nil || o.failures > 0 && m.now.Before(o.poll) || m.own.on && !m.site.roster.introduced(&m.step) {
		return
	}
	if !o.due.IsZero() && !m.now.Before(o.due) {
		m.call(true)
	} else if o.parked.number == 0 && !m.now.Before(o.poll) {
		m.call(o.pressing(m.now) || m.own.on && m.ledger.news())
	}
}

func (m *Master) call(content bool) {
	o := &m.outbox
	o.calls++
	s := task.Sync{
		Site: m.settings.Site, Term: m.term, Pilot: m.self,
		Leases: slices.Sorted(maps.Keys(m.site.handout.leases)), Capacity: m.site.roster.capacity(&m.site.handout, &m.site.placing), Judges: m.site.roster.nodes.judges,
	}
	o.lastWaiting = s.Capacity.Waiting
	for _, mark := range m.site.roster.nodes.Marks(m.now) {
		mark.Why = task.Brief(mark.Why)
		s.Nodes = append(s.Nodes, mark)
	}
	m.site.handout.countLeases(&m.outbox, &s)
	if content {
		o.due = time.Time{}
		m.outbox.callRoll(&m.site.roster, &s)
		o.flight = o.load(&s, m.now, m.site.handout.waitsForMaker)
	} else {
		s.Hold = m.config.Queue.Every
		o.parked = parked{o.calls, m.now}
	}
	if !m.own.on {
		m.act(CallSync{N: o.calls, Sync: s})
		return
	}
	p := m.pull(s, content)
	if content {
		o.flight.summary = p.Cache.Version
	}
	m.act(CallPull{N: o.calls, Pull: p})
}

// countLeases tells how many tasks of each lease this site has: those that are on
// their way back to the queue are its as well.
func (hand *handout) countLeases(outbox *outbox, s *task.Sync) {
	tasks := make(map[task.LeaseID]int, len(s.Leases))
	for _, back := range outbox.returns {
		tasks[back.Lease]++
	}
	for _, id := range s.Leases {
		s.Tasks = append(s.Tasks, hand.leases[id].open+tasks[id])
	}
}

// mostInHand bounds the attempts that one call lists.
const mostInHand = 10_000

// callRoll lists members that the queue is to hear of, what they have in hand, and
// why they take no new work. Of whom a state is on its way later calls tell.
func (o *outbox) callRoll(roster *roster, s *task.Sync) {
	told := make(map[task.PilotID]bool)
	for _, id := range slices.Sorted(maps.Keys(o.joined)) {
		w := roster.members[id]
		if !w.asked.IsZero() || len(s.InHand) >= mostInHand {
			continue
		}
		s.Joined, told[id] = append(s.Joined, id), true
		if w.stopped != "" {
			o.pauses[id] = w.stopped
		}
		for _, j := range w.jobs {
			if j.phase != assigned {
				s.InHand = append(s.InHand, j.attempt)
			}
		}
	}
	for id := range o.outcomes {
		if told[id.Pilot] {
			s.InHand = append(s.InHand, id)
		}
	}
	slices.SortFunc(s.InHand, task.AttemptID.Compare)
}

func (roster *roster) capacity(hand *handout, placing *placing) task.Capacity {
	c := task.Capacity{
		Pilots: len(roster.members), Slots: roster.size.slots, FreeSlots: roster.size.free,
		Waiting: hand.counts.phases[waiting] + hand.counts.phases[ready], Running: hand.counts.running,
		Assigned: hand.counts.phases[placed] - hand.counts.running, Optimality: placing.solving.optimality(),
	}
	for _, w := range roster.members {
		c.CacheBytes += w.cache.Capacity
		c.CacheUsed += w.cache.Used
		c.Evictions += w.cache.Evictions
		c.Damaged += w.cache.Damaged
	}
	var first *member
	if c.Stopped, c.StoppedSlots, first = roster.stopped(); first != nil {
		c.StoppedWhy = first.stopped
	}
	return c
}

// syncAnswered takes the queue's answer.
func (m *Master) syncAnswered(e SyncAnswered) {
	o := &m.outbox
	if !m.inOffice {
		return
	}
	var carried *flight
	var sent time.Time
	switch {
	case o.flight != nil && o.flight.number == e.N:
		carried, sent, o.flight = o.flight, o.flight.sent, nil
	case o.parked.number == e.N && e.N != 0:
		sent, o.parked = o.parked.sent, parked{}
	default:
		return // of an earlier term
	}
	if carried != nil && (e.Err != "" || e.Stale) {
		m.ledger.failed()
		m.outbox.syncSoon(&m.step, 0)
	}
	switch {
	case e.Stale:
		m.fenced = true
		m.act(Fenced{})
		o.failures, o.poll = 1, m.now.Add(m.config.Queue.Every)
	case e.Err != "":
		if carried != nil || o.flight == nil {
			o.failures++
			o.poll = m.now.Add(message.Jitter(m.self, m.now, min(m.config.Queue.Every, 50*time.Millisecond<<min(o.failures, 6))))
		}
	default:
		m.syncDone(e, carried, sent)
	}
}

func (m *Master) syncDone(e SyncAnswered, carried *flight, sent time.Time) {
	o := &m.outbox
	o.failures, m.fenced = 0, false
	clear(m.site.roster.lost)
	if sent.After(m.heard) {
		m.heard = sent
	}
	if o.parked.number == 0 {
		o.poll = m.now
		if carried != nil {
			o.poll = m.now.Add(m.config.Queue.ParkPause(m.site.handout.counts.running))
		}
	}
	if m.own.on {
		m.own.answered = true
		m.ledger.summarised(&m.step, &m.outbox, e, carried)
	}
	if carried != nil {
		o.delivered(carried)
		m.outbox.echoStored(&m.step, carried.stored)
	}
	m.takeVerdicts(e.Reply.Acks)
	if carried != nil {
		if most, wait := o.unanswered(carried, 2*m.config.Queue.Delay); wait {
			o.again = m.now.Add(message.Jitter(m.self, m.now, most))
		}
	}
	if e.N > o.answered {
		// What an older answer wishes is out of date; the queue repeats it.
		o.answered = e.N
		m.takeWishes(e.Reply)
	}
	if len(o.outcomes) > 0 {
		m.outbox.syncSoon(&m.step, max(m.site.handout.gatherDelay(&m.step), o.nextOutcome(m.now).Sub(m.now)))
	}
	if o.unreported() || len(o.joined) > 0 {
		m.outbox.syncSoon(&m.step, m.config.Queue.Every)
	}
}

// waitsForMaker tells whether the queue will have an outcome wait, by the
// hand-out: a maker of an input has not ended for good.
func (hand *handout) waitsForMaker(o *task.Outcome) bool {
	return o.OK && slices.ContainsFunc(o.Reads, func(r task.Read) bool { return hand.held[r.Producer.Task] != nil })
}

// takeWishes takes what the queue hands out and wants.
func (m *Master) takeWishes(reply task.SyncReply) {
	if reply.Settings.Site != "" {
		m.site.takeSettings(&m.step, reply.Settings)
	}
	m.outbox.takeRoll(&m.step, &m.site.handout, &m.site.roster, reply.Roll)
	for _, id := range reply.Unknown {
		m.dropLease(id)
	}
	for _, lease := range reply.Leases {
		m.addLease(lease)
	}
	m.revoke(reply.Revoked)
	m.site.takeNodes(&m.step, &m.outbox, reply.Nodes)
	m.searches.check(&m.step, &m.site, &m.outbox, reply.Check)
	for _, pilot := range reply.Drain {
		if w := m.site.roster.members[pilot]; w != nil && !w.draining {
			m.tell(w, message.DrainOrder{Reason: "an operator wants it, or the queue does not know this pilot any more"})
		}
	}
	if len(reply.Denied) > 0 {
		m.act(DenyPeers{Peers: reply.Denied})
	}
	for id, since := range m.site.handout.gone {
		if since < m.outbox.answered {
			delete(m.site.handout.gone, id) // an answer to a call made since does not list it again
		}
	}
}

// takeRoll has all members join again when the queue has called the roll anew.
func (o *outbox) takeRoll(at *step, hand *handout, roster *roster, roll uint64) {
	before := o.roll
	if roll == 0 || roll == before {
		return // 0: an answer without news
	}
	o.roll = roll
	if before == 0 {
		return
	}
	for _, w := range roster.members {
		if w.described {
			o.joins(at, hand, w)
		}
	}
}

func (site *site) takeSettings(at *step, settings task.SiteSettings) {
	changed := settings.Prefill != at.settings.Prefill
	site.setSettings(at, settings)
	if changed {
		site.refreshAll(at)
	}
}

// takeVerdicts echoes the queue's judgement to the pilots and forgets what is
// settled. Keepers of copies learn of it first: they must not hold for open
// what a pilot has forgotten.
func (m *Master) takeVerdicts(acks []task.Ack) {
	byPeer := make(map[task.PeerID][]task.Ack)
	judged := make(map[task.ID]bool, len(acks))
	for _, ack := range acks {
		pending := m.outbox.judged(ack.Attempt)
		if pending == nil {
			continue
		}
		judged[ack.Attempt.Task] = true
		if pending.asked != 0 {
			m.outbox.vain = 0
		}
		byPeer[pending.from] = append(byPeer[pending.from], ack)
		m.settle(ack, &pending.outcome)
	}
	if len(byPeer) == 0 {
		return
	}
	m.outbox.letGoOn(judged)
	m.copies.passCopies(&m.step, &m.site.handout, &m.site.roster, &m.outbox)
	for _, peer := range slices.Sorted(maps.Keys(byPeer)) {
		m.act(message.Tell{To: peer, Message: message.Acks{Acks: byPeer[peer]}})
	}
}

// settle draws the consequences of a verdict for the hand-out. A task that
// came again in another lease while its outcome was under way is over only if
// the outcome counts.
func (m *Master) settle(ack task.Ack, o *task.Outcome) {
	counts := ack.Verdict == task.AckAccepted && o.OK
	if o.OK && !counts {
		m.disown(*o)
	}
	for _, output := range o.Outputs {
		k := m.site.handout.files[output.LFN]
		if k == nil || k.file.Producer != o.Attempt {
			continue
		}
		if counts && len(k.readers) > 0 {
			m.copies.files(k.file)
		}
		m.site.handout.dispose(&m.step, &m.outbox, k)
	}
	h := m.site.handout.held[ack.Attempt.Task]
	if h == nil || h.phase != ended || h.endedBy != ack.Attempt {
		return
	}
	if h.lease == ack.Attempt.Lease || counts || ack.Verdict == task.AckDuplicate {
		m.forget(h)
		return
	}
	m.backToReady(h, true)
}

func (o *outbox) echoStored(at *step, stored []task.Stored) {
	byPeer := make(map[task.PeerID][]task.OutputID)
	for _, s := range stored {
		pending := o.stored[s.Output()]
		if pending.stored != s {
			continue
		}
		delete(o.stored, s.Output())
		for _, peer := range pending.from {
			byPeer[peer] = append(byPeer[peer], s.Output())
		}
	}
	for _, peer := range slices.Sorted(maps.Keys(byPeer)) {
		at.act(message.Tell{To: peer, Message: message.Acks{Stored: byPeer[peer]}})
	}
}
