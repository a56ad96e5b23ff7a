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
	if o.call.due.IsZero() || due.Before(o.call.due) {
		o.call.due = due
	}
}

func (hand *handout) gatherDelay(at *step) time.Duration {
	return at.config.Queue.GatherDelay(hand.counts.running, at.usualRun)
}

// outcomeSoon gathers outcomes.
func (o *outbox) outcomeSoon(at *step, hand *handout) {
	o.syncSoon(at, at.config.Queue.OutcomeDelay(len(o.outcomes), hand.counts.phases[ready], hand.counts.running, at.usualRun))
}

// parkAt is when a call that waits for news may go: after a failure not before its
// pause is over, nor where the next call with content comes soon.
func (o *outbox) parkAt(at *step, hand *handout) time.Time {
	rested := o.call.carried.Add(at.config.Queue.ParkPause(hand.counts.phases[ready], hand.counts.running, at.usualRun))
	if rested.After(o.call.poll) {
		return rested
	}
	return o.call.poll
}

func (o *outbox) syncDeadline(at *step, site *site) time.Time {
	if at.provisional || o.call.flight != nil || at.own.on && !site.roster.introduced(at) {
		return time.Time{}
	}
	next := o.call.due
	if park := o.parkAt(at, &site.handout); o.call.parked.number == 0 && (next.IsZero() || park.Before(next)) {
		next = park
	}
	if o.call.failures > 0 && !next.IsZero() && next.Before(o.call.poll) {
		next = o.call.poll // not before the pause after a failure is over
	}
	return next
}

// passSync calls the queue: with content as soon as that is due, else with an
// empty call that the queue parks until it has news. A call with content ends
// the parked one.
func (m *Master) passSync() {
	o := &m.holding.outbox
	if m.provisional || o.call.flight != nil || o.call.failures > 0 && m.now.Before(o.call.poll) || m.own.on && !m.holding.site.roster.introduced(&m.step) {
		return
	}
	if !o.call.due.IsZero() && !m.now.Before(o.call.due) {
		m.call(true)
	} else if o.call.parked.number == 0 && !m.now.Before(o.parkAt(&m.step, &m.holding.site.handout)) {
		m.call(o.pressing(m.now, &m.holding.site.roster) || m.own.on && m.ledger.news())
	}
}

func (m *Master) call(content bool) {
	o := &m.holding.outbox
	o.call.number++
	s := task.Sync{
		Site: m.settings.Site, Term: m.term, Pilot: m.self,
		Leases: slices.Sorted(maps.Keys(m.holding.site.handout.leases)), Capacity: m.holding.site.roster.capacity(&m.holding.site.handout, &m.holding.site.placing),
		NodeHealth: task.NodeHealth{Nodes: m.holding.site.roster.nodes.Marks(m.now), Judges: m.holding.site.roster.nodes.Restored()},
	}
	o.call.lastReady = m.holding.site.handout.counts.phases[ready]
	m.holding.site.handout.countLeases(&m.holding.outbox, &s)
	if content {
		o.call.due, o.call.telling = time.Time{}, o.call.number
		m.holding.outbox.callRoll(&m.holding.site.roster, &s)
		o.call.flight = o.load(&s, m.now, m.holding.site.handout.waitsForMaker)
	} else {
		s.Hold = m.config.Queue.Every
		o.call.parked = parked{o.call.number, m.now}
	}
	s.Number = o.call.telling
	if !m.own.on {
		m.act(CallSync{N: o.call.number, Sync: s})
		return
	}
	p := m.pull(s, content)
	if content {
		o.call.flight.summary = p.Cache.Version
	}
	m.act(CallPull{N: o.call.number, Pull: p})
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

// callRoll lists members that the queue is to hear of, what they have in hand, and
// why they take no new work. Of whom a state is on its way later calls tell.
func (o *outbox) callRoll(roster *roster, s *task.Sync) {
	told := make(map[task.PilotID]bool)
	for _, id := range slices.Sorted(maps.Keys(o.joined)) {
		w := roster.members[id]
		if !w.talk.asked.IsZero() || len(s.InHand) >= mostListed {
			continue
		}
		s.Joined, told[id] = append(s.Joined, id), true
		if w.pause.stopped != "" {
			o.pauses[id] = w.pause.stopped
		}
		for _, j := range w.placements {
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
		Assigned: hand.counts.phases[placed] - hand.counts.running,
	}
	for _, w := range roster.members {
		c.CacheBytes += w.cache.Capacity
		c.CacheUsed += w.cache.Used
		c.Evictions += w.cache.Evictions
		c.Damaged += w.cache.Damaged
	}
	var first *member
	if c.Stopped, c.StoppedSlots, first = roster.stopped(); first != nil {
		c.StoppedWhy = first.pause.stopped
	}
	return c
}

// syncAnswered takes the queue's answer.
func (m *Master) syncAnswered(e SyncAnswered) {
	o := &m.holding.outbox
	if !m.inOffice {
		return
	}
	var carried *flight
	var sent time.Time
	switch {
	case o.call.flight != nil && o.call.flight.number == e.N:
		carried, sent, o.call.flight = o.call.flight, o.call.flight.sent, nil
	case o.call.parked.number == e.N && e.N != 0:
		sent, o.call.parked = o.call.parked.sent, parked{}
	default:
		return // of an earlier term
	}
	if carried != nil && (e.Err != "" || e.Stale) {
		m.ledger.failed()
		m.holding.outbox.syncSoon(&m.step, 0)
	}
	switch {
	case e.Stale:
		m.fenced = true
		m.act(Fenced{Term: m.term})
		o.call.failures, o.call.poll = 1, m.now.Add(m.config.Queue.Every)
	case e.Err != "":
		if carried != nil || o.call.flight == nil {
			o.call.failures++
			o.call.poll = m.now.Add(message.Jitter(m.self, m.now, min(m.config.Queue.Every, 50*time.Millisecond<<min(o.call.failures, 6))))
		}
	default:
		m.syncDone(e, carried, sent)
	}
}

func (m *Master) syncDone(e SyncAnswered, carried *flight, sent time.Time) {
	o := &m.holding.outbox
	o.call.failures, m.fenced = 0, false
	clear(m.holding.site.roster.lost)
	if sent.After(m.heard) {
		m.heard = sent
	}
	if o.call.parked.number == 0 {
		o.call.poll = m.now
	}
	if m.own.on {
		m.own.answered = true
		if e.Deposed {
			m.act(Fenced{Term: e.Named})
		}
		m.ledger.summarised(&m.step, &m.holding.outbox, e, carried)
	}
	if carried != nil {
		o.call.carried = m.now
		for _, lost := range o.lost[:carried.lost] {
			m.holding.site.roster.tellRelieved(&m.step, lost.bereft...)
		}
		o.delivered(carried)
		m.holding.outbox.echoStored(&m.step, carried.stored)
		m.soles.stored(&m.step, &m.holding.site, carried.stored)
	}
	m.takeVerdicts(e.Reply.Acks)
	if carried != nil {
		if most, wait := o.unanswered(carried, 2*m.config.Queue.Delay); wait {
			o.call.again = m.now.Add(message.Jitter(m.self, m.now, most))
		}
	}
	if e.N > o.call.answered {
		// What an older answer wishes is out of date; the queue repeats it.
		o.call.answered = e.N
		m.takeWishes(e.Reply)
	}
	if len(o.outcomes) > 0 {
		m.holding.outbox.syncSoon(&m.step, max(m.holding.site.handout.gatherDelay(&m.step), o.nextOutcome(m.now).Sub(m.now)))
	}
	if o.unreported() || len(o.joined) > 0 {
		m.holding.outbox.syncSoon(&m.step, m.config.Queue.Every)
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
		m.holding.site.takeSettings(&m.step, reply.Settings)
	}
	m.holding.outbox.takeRoll(&m.step, &m.holding.site.handout, &m.holding.site.roster, reply.Roll)
	for _, id := range reply.Unknown {
		m.holding.dropLease(&m.step, id)
	}
	for _, lease := range reply.Leases {
		m.holding.addLease(&m.step, lease)
	}
	m.holding.revoke(&m.step, reply.Revoked)
	if !m.own.on { // after the first answer: what the master before thought of the nodes
		m.holding.site.roster.nodes.Restore(m.now, reply.Nodes)
	}
	m.searches.check(&m.step, &m.holding, reply.Check)
	m.searches.drop(&m.step, &m.holding, reply.Drop)
	for _, pilot := range reply.Drain {
		if w := m.holding.site.roster.members[pilot]; w != nil && w.pause.declines != drainReason {
			m.tell(w, message.DrainOrder{Reason: drainReason})
		}
	}
	if len(reply.Denied) > 0 {
		m.act(DenyPeers{Peers: reply.Denied, Signature: reply.DeniedSignature})
	}
	for id, since := range m.holding.site.handout.gone {
		if since < m.holding.outbox.call.answered {
			delete(m.holding.site.handout.gone, id) // an answer to a call made since does not list it again
		}
	}
}

// drainReason is what a pilot that the queue wants drained tells of why it takes no work.
// Other reasons may end: a pilot with one is told, again if it leaves for that already.
const drainReason = "an operator wants it, or the queue does not know this pilot any more"

// takeRoll has all members join again when the queue has called the roll anew.
func (o *outbox) takeRoll(at *step, hand *handout, roster *roster, roll uint64) {
	before := o.call.roll
	if roll == 0 || roll == before {
		return // 0: an answer without news
	}
	o.call.roll = roll
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
		pending := m.holding.outbox.judged(ack.Attempt)
		if pending == nil {
			continue
		}
		judged[ack.Attempt.Task] = true
		if pending.asked != 0 {
			m.holding.outbox.call.vain = 0
		}
		byPeer[pending.from] = append(byPeer[pending.from], ack)
		m.settle(ack, &pending.outcome)
	}
	if len(byPeer) == 0 {
		return
	}
	m.holding.outbox.letGoOn(judged)
	m.holding.copies.passCopies(&m.step, &m.holding.site.handout, &m.holding.site.roster, &m.holding.outbox)
	for peer, judged := range byKey(byPeer) {
		m.act(message.Tell{To: peer, Message: message.Acks{Acks: judged}})
	}
}

// settle draws the consequences of a verdict for the hand-out. A task that
// came again in another lease while its outcome was under way is over only if
// the outcome counts.
func (m *Master) settle(ack task.Ack, o *task.Outcome) {
	counts := ack.Verdict == task.AckAccepted && o.OK
	if o.OK && !counts {
		m.holding.disown(&m.step, *o)
	}
	for _, output := range o.Outputs {
		k := m.holding.site.handout.files[output.LFN]
		if k == nil || k.file.Producer != o.Attempt {
			continue
		}
		if counts && len(k.readers) > 0 {
			m.holding.copies.files(k.file)
		}
		m.holding.site.handout.dispose(&m.step, &m.holding.outbox, k)
	}
	h := m.holding.site.handout.held[ack.Attempt.Task]
	if h == nil || h.phase != ended || h.endedBy != ack.Attempt {
		return
	}
	if h.lease == ack.Attempt.Lease || counts || ack.Verdict == task.AckDuplicate {
		m.holding.forget(&m.step, h)
		return
	}
	m.holding.backToReady(&m.step, h, true)
}

func (o *outbox) echoStored(at *step, stored []task.Stored) {
	byPeer := make(map[task.PeerID][]task.OutputID)
	for _, s := range stored {
		pending := o.stored[s.Output()]
		if pending.stored != s {
			continue
		}
		if o.outcomes[s.Attempt] == nil {
			delete(o.stored, s.Output())
		} else {
			o.stored[s.Output()] = pendingStored{stored: s, told: true}
		}
		for _, peer := range pending.from {
			byPeer[peer] = append(byPeer[peer], s.Output())
		}
	}
	for peer, stored := range byKey(byPeer) {
		at.act(message.Tell{To: peer, Message: message.Acks{Stored: stored}})
	}
}
