package pilot

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// outbox is what the queue has to be told, and how the calls stand. Nothing
// leaves it before the queue has acknowledged it.
type outbox struct {
	outcomes  map[task.AttemptID]*pendingOutcome
	starts    []task.Start
	returns   []task.Returned
	stored    map[task.LFN]task.Stored
	lost      []task.LostFile
	departed  []task.Departure
	refused   []task.Refusal
	confirmed []task.Revoked
	reads     map[task.Site]task.SERead
	readSeq   uint64

	due         time.Time // content is to be sent by then
	poll        time.Time // an empty Sync is due
	failures    int
	calls       uint64
	flight      *flight // call that carries content
	parked      uint64  // call that waits for the queue's news; 0: none
	lastWaiting int     // as told to the queue
	lastFree    int
}

type pendingOutcome struct {
	outcome task.Outcome
	from    task.PeerID
	order   uint64
}

// flight remembers what a call carries, so that just that is acknowledged.
type flight struct {
	number    uint64
	outcomes  int
	starts    int
	returns   int
	stored    []task.Stored
	lost      int
	departed  int
	refused   int
	confirmed int
}

func (o *outbox) reset() {
	*o = outbox{
		outcomes: make(map[task.AttemptID]*pendingOutcome),
		stored:   make(map[task.LFN]task.Stored),
		reads:    make(map[task.Site]task.SERead),
		readSeq:  o.readSeq + 1, calls: o.calls,
	}
}

func (o *outbox) empty() bool {
	return len(o.outcomes) == 0 && len(o.starts) == 0 && len(o.returns) == 0 && len(o.stored) == 0 &&
		len(o.lost) == 0 && len(o.departed) == 0 && len(o.refused) == 0 && len(o.confirmed) == 0
}

// addOutcome keeps an outcome and tells whether it is new.
func (o *outbox) addOutcome(from task.PeerID, outcome task.Outcome) bool {
	if pending := o.outcomes[outcome.Attempt]; pending != nil {
		pending.from = from
		return false
	}
	o.calls++
	o.outcomes[outcome.Attempt] = &pendingOutcome{outcome: outcome, from: from, order: o.calls}
	return true
}

func (o *outbox) addStored(s task.Stored) bool {
	if old, known := o.stored[s.LFN]; known && old == s {
		return false
	}
	o.stored[s.LFN] = s
	return true
}

func (m *Master) addSEReads(reads []task.SERead) {
	for _, r := range reads {
		sum := m.outbox.reads[r.Owner]
		sum.Owner = r.Owner
		sum.Files += r.Files
		sum.Bytes += r.Bytes
		m.outbox.reads[r.Owner] = sum
	}
}

// syncSoon has content sent after a delay at most.
func (m *Master) syncSoon(delay time.Duration) {
	due := m.now.Add(delay)
	if m.outbox.due.IsZero() || due.Before(m.outbox.due) {
		m.outbox.due = due
	}
}

// outcomeSoon gathers outcomes, unless there are many, or the site is short
// of work and the queue should know at once.
func (m *Master) outcomeSoon() {
	if len(m.outbox.outcomes) >= m.config.SyncBatch || m.matrix.Ready() == 0 && len(m.list.ready) == 0 {
		m.syncSoon(0)
		return
	}
	m.syncSoon(m.config.SyncDelay)
}

func (m *Master) syncDeadline() time.Time {
	o := &m.outbox
	switch {
	case m.provisional || o.flight != nil:
		return time.Time{}
	case o.parked == 0:
		if !o.due.IsZero() && o.due.Before(o.poll) && o.failures == 0 {
			return o.due
		}
		return o.poll
	default:
		return o.due
	}
}

// passSync calls the queue: with content as soon as that is due, else with an
// empty call that the queue parks until it has news. A call with content ends
// the parked one.
func (m *Master) passSync() {
	o := &m.outbox
	if m.provisional || o.flight != nil {
		return
	}
	if o.failures > 0 && m.now.Before(o.poll) {
		return
	}
	if !o.due.IsZero() && !m.now.Before(o.due) {
		m.call(true)
	} else if o.parked == 0 && !m.now.Before(o.poll) {
		m.call(!o.empty())
	}
}

func (m *Master) call(content bool) {
	o := &m.outbox
	o.calls++
	s := task.Sync{
		Site: m.settings.Site, Term: m.term, Pilot: m.self,
		Leases: sortedKeys(m.leases), Capacity: m.capacity(),
	}
	o.lastWaiting, o.lastFree = s.Capacity.Waiting, s.Capacity.FreeSlots
	if !content {
		s.Hold = m.config.SyncEvery
		o.parked = o.calls
		m.act(CallSync{N: o.calls, Sync: s})
		return
	}
	o.due = time.Time{}
	for _, pending := range o.inOrder() {
		s.Outcomes = append(s.Outcomes, pending.outcome)
	}
	s.Starts, s.Returns, s.Lost = slices.Clone(o.starts), slices.Clone(o.returns), slices.Clone(o.lost)
	s.Departed, s.Refused, s.Confirmed = slices.Clone(o.departed), slices.Clone(o.refused), slices.Clone(o.confirmed)
	for _, name := range sortedKeys(o.stored) {
		s.Stored = append(s.Stored, o.stored[name])
	}
	if len(o.reads) > 0 {
		s.Report.Seq = o.readSeq
		for _, owner := range sortedKeys(o.reads) {
			s.Report.SEReads = append(s.Report.SEReads, o.reads[owner])
		}
	}
	o.flight = &flight{
		number: o.calls, outcomes: len(s.Outcomes), starts: len(s.Starts), returns: len(s.Returns),
		stored: s.Stored, lost: len(s.Lost), departed: len(s.Departed), refused: len(s.Refused), confirmed: len(s.Confirmed),
	}
	m.act(CallSync{N: o.calls, Sync: s})
}

// maxOutcomes bounds the outcomes in one call.
const maxOutcomes = 1000

func (o *outbox) inOrder() []*pendingOutcome {
	pending := make([]*pendingOutcome, 0, len(o.outcomes))
	for _, p := range o.outcomes {
		pending = append(pending, p)
	}
	slices.SortFunc(pending, func(a, b *pendingOutcome) int { return cmp.Compare(a.order, b.order) })
	return pending[:min(len(pending), maxOutcomes)]
}

func (m *Master) capacity() task.Capacity {
	c := task.Capacity{Pilots: len(m.pilots)}
	for _, w := range m.pilots {
		if !w.draining {
			c.Slots += w.total.slots
			c.FreeSlots += w.freeSlots()
		}
		c.CacheBytes += w.cache.Capacity
		c.CacheUsed += w.cache.Used
		c.Evictions += w.cache.Evictions
	}
	for _, h := range m.held {
		switch h.phase {
		case waiting, ready:
			c.Waiting++
		case assigned:
			c.Assigned++
		case started:
			c.Running++
		case ended:
		}
	}
	return c
}

// syncAnswered takes the queue's answer.
func (m *Master) syncAnswered(e SyncAnswered) {
	o := &m.outbox
	mine := o.flight
	carried := mine != nil && mine.number == e.N
	switch {
	case !m.inOffice:
		return
	case carried:
		o.flight = nil
	case o.parked == e.N:
		o.parked = 0
	}
	if e.Stale {
		m.act(Fenced{})
		o.poll = m.now.Add(m.config.SyncEvery)
		return
	}
	if e.Err != "" {
		if carried {
			m.syncSoon(0)
		}
		if carried || o.parked == 0 {
			o.failures++
			o.poll = m.now.Add(min(m.config.SyncEvery, 50*time.Millisecond<<min(o.failures, 6)))
		}
		return
	}
	m.heard, o.failures = m.now, 0
	if o.parked == 0 {
		o.poll = m.now
	}
	if carried {
		o.delivered(mine)
		if !o.empty() && o.due.IsZero() && len(o.outcomes) > 0 {
			m.syncSoon(m.config.SyncDelay)
		}
	}
	m.takeReply(e.Reply, mine, carried)
}

// delivered drops what a call has carried. Outcomes wait for their verdict.
func (o *outbox) delivered(f *flight) {
	o.starts = o.starts[f.starts:]
	o.returns = o.returns[f.returns:]
	o.lost = o.lost[f.lost:]
	o.departed = o.departed[f.departed:]
	o.refused = o.refused[f.refused:]
	o.confirmed = o.confirmed[f.confirmed:]
}

func (m *Master) takeReply(reply task.SyncReply, f *flight, carried bool) {
	o := &m.outbox
	if reply.Settings.Site != "" {
		m.settings = reply.Settings
	}
	if reply.ReportSeq == o.readSeq {
		clear(o.reads)
		o.readSeq++
	}
	m.takeVerdicts(reply.Acks)
	if carried {
		m.echoStored(f.stored)
	}
	for _, id := range reply.Unknown {
		m.dropLease(id)
	}
	for _, lease := range reply.Leases {
		m.addLease(lease)
	}
	m.revoke(reply.Revoked)
	for _, pilot := range reply.Drain {
		m.tell(pilot, DrainOrder{Reason: "an operator wants it"})
	}
	if len(reply.Denied) > 0 {
		m.act(DenyPeers{Peers: reply.Denied})
	}
}

// takeVerdicts echoes the queue's judgement to the pilots and forgets what is
// settled.
func (m *Master) takeVerdicts(acks []task.Ack) {
	byPeer := make(map[task.PeerID][]task.Ack)
	for _, ack := range acks {
		pending := m.outbox.outcomes[ack.Attempt]
		if pending == nil {
			continue
		}
		delete(m.outbox.outcomes, ack.Attempt)
		byPeer[pending.from] = append(byPeer[pending.from], ack)
		h := m.held[ack.Attempt.Task]
		if h != nil && h.phase == ended && h.Generation == ack.Attempt.Generation {
			m.forget(h)
		}
		if ack.Verdict != task.AckAccepted && pending.outcome.OK {
			m.disown(pending.outcome)
		}
	}
	for _, peer := range sortedKeys(byPeer) {
		m.act(Tell{To: peer, Message: Acks{Acks: byPeer[peer]}})
	}
}

// disown takes back what a losing attempt was thought to have made.
func (m *Master) disown(outcome task.Outcome) {
	for _, output := range outcome.Outputs {
		if file := m.files[output.LFN]; file != nil && file.Producer == outcome.Attempt {
			m.fileMissing(output.LFN)
		}
	}
}

func (m *Master) echoStored(stored []task.Stored) {
	byPeer := make(map[task.PeerID][]task.LFN)
	for _, s := range stored {
		if m.outbox.stored[s.LFN] == s {
			delete(m.outbox.stored, s.LFN)
		}
		if w := m.pilots[s.Attempt.Pilot]; w != nil {
			byPeer[w.peer] = append(byPeer[w.peer], s.LFN)
		}
	}
	for _, peer := range sortedKeys(byPeer) {
		m.act(Tell{To: peer, Message: Acks{Stored: byPeer[peer]}})
	}
}

// dropLease lets go of a lease that the queue has given up: what runs goes
// on, for late work is still work; what has not begun is dropped.
func (m *Master) dropLease(id task.LeaseID) {
	if m.leases[id] == nil {
		return
	}
	for _, taskID := range sortedKeys(m.held) {
		h := m.held[taskID]
		if h.lease != id || h.phase == ended {
			continue
		}
		if h.phase == assigned {
			m.tell(h.pilot, Kill{Term: m.term, Task: h.Task.ID, Lease: id, Reason: "the lease has lapsed"})
		}
		m.forget(h)
	}
	m.closeLease(id)
}
