package master

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// member is what the master knows of one pilot. Slots and resources are
// reckoned from assignments and reports, by the same rule that the pilot
// applies itself: the oldest assignment that fits takes a freed slot.
type member struct {
	id         task.PilotID
	peer       task.PeerID
	host       string
	described  bool // its state has come
	draining   bool // it takes no new work: it leaves, or pauses
	stays      bool // it does not leave
	pause      pause
	total      capacity
	used       capacity
	counted    counted // its share in the sums of the site
	placements map[message.LeasedID]*placement
	waiting    []*placement // assigned, without a slot, oldest first
	row        rowState
	talk       talk
	copying    copying
	cache      message.CacheReport
	ends       time.Time // of its lifetime; zero: not known
	idleSince  time.Time // since when it has a free slot; zero: it has none
}

// pause is why a member takes no new work.
type pause struct {
	stopped  string // as the queue is told; "" while it takes some
	declines string // its own reason
	judged   string // its master's
}

// talk is how far master and member have heard of each other.
type talk struct {
	asked time.Time // when its state was asked for; zero: it has come since
	heard time.Time
	said  uint64 // number of its last state or report
	given uint64 // serial of the last Assign to it
	seen  uint64 // and of the last that it has told to have seen
}

// copying is what the member has been asked to copy.
type copying struct {
	promised  task.Bytes // of sole copies that it was told to take over
	stores    bool       // the storage element has taken something of it since it last asked for other keepers
	copyless  time.Time  // until then it is given no replicas: one has failed
	lapses    int        // how often in a row it has left orders to copy unanswered
	unplanned bool       // the next session passes it over, which ends its plan
}

// rowState is how a member's row in the matrix stands.
type rowState struct {
	listed bool   // it has come
	n      uint64 // list version that it answers
	asked  time.Time
	early  []matcher.RowUpdate // of list versions whose round is not over
}

type capacity struct {
	slots     int
	resources task.Resources
}

type counted struct{ slots, free int }

func (w *member) freeSlots() int { return max(0, w.total.slots-w.used.slots) }

func (w *member) fits(need task.Resources) bool {
	return w.freeSlots() > 0 && w.total.resources.Sub(w.used.resources).Fits(need)
}

func (w *member) take(j *placement) {
	j.holding = true
	w.used.slots++
	w.used.resources = w.used.resources.Add(j.need)
}

func (w *member) release(j *placement) {
	if !j.holding {
		return
	}
	j.holding = false
	w.used.slots--
	w.used.resources = w.used.resources.Sub(j.need)
}

// promote gives freed slots to waiting assignments, oldest first, but not to
// one that follows another: its slot is that one's.
func (w *member) promote() {
	w.waiting = slices.DeleteFunc(w.waiting, func(j *placement) bool {
		if !j.isSuccessor() && w.fits(j.need) {
			w.take(j)
			return true
		}
		return false
	})
}

func (w *member) unwait(j *placement) {
	w.waiting = slices.DeleteFunc(w.waiting, func(other *placement) bool { return other == j })
}

// keeps ranks members by how long they will have what they are to keep: first those that
// take work, then those that take none for a while, last those that leave.
func (w *member) keeps() int {
	switch {
	case !w.draining:
		return 2
	case w.stays:
		return 1
	}
	return 0
}

// leaves tells whether a member takes no work ever again.
func (w *member) leaves() bool { return w.keeps() == 0 }

// inOrder lists what a member has in hand by the order of assignment.
func (w *member) inOrder() []*placement {
	all := make([]*placement, 0, len(w.placements))
	for _, j := range w.placements {
		all = append(all, j)
	}
	slices.SortFunc(all, byOrder)
	return all
}

// pilotUp greets a member. In a census it answers anyway; one that has
// reconnected may have lost messages, or the master some of its.
func (m *Master) pilotUp(e PilotUp) {
	if !m.inOffice {
		return
	}
	again := m.holding.site.roster.members[e.Pilot] != nil || m.holding.site.roster.lost[e.Pilot]
	w := m.holding.site.roster.meet(&m.step, e.Pilot, e.Peer)
	if again || !m.holding.site.list.censusAsks() {
		w.row.listed = false
		m.wantState(w)
	}
}

// meet takes a member in.
func (roster *roster) meet(at *step, pilot task.PilotID, peer task.PeerID) *member {
	w := roster.members[pilot]
	if w == nil {
		w = &member{id: pilot, placements: make(map[message.LeasedID]*placement)}
		roster.members[pilot] = w
	}
	if w.peer != peer {
		delete(roster.peers, w.peer)
	}
	delete(roster.lost, pilot)
	w.peer, w.talk.heard = peer, at.now
	roster.peers[peer] = w
	return w
}

// wantState asks a member for its whole state. What was assigned before and
// is not in that state never arrived.
func (at *step) wantState(w *member) {
	at.serial++
	w.talk.asked = at.now
	at.tell(w, message.Want{Term: at.term, Serial: at.serial, State: true, Copies: at.provisional})
}

// greet sends the whole list to a member, once until its row comes.
func (l *list) greet(at *step, w *member) {
	if !w.row.asked.IsZero() && at.now.Sub(w.row.asked) < at.config.Queue.Every {
		return
	}
	w.row.asked = at.now
	at.tell(w, message.Snapshot{List: l.snapshot(at.term)})
}

// wantRow asks for a whole row, once until it comes.
func (at *step) wantRow(w *member) {
	if !w.row.asked.IsZero() && at.now.Sub(w.row.asked) < at.config.Queue.Every {
		return
	}
	w.row.asked = at.now
	at.serial++
	at.tell(w, message.Want{Term: at.term, Serial: at.serial, Row: true})
}

// passAudit asks again whoever owes an answer, and those that have work and
// have been silent for long: no lost message holds a task for ever, and no
// missing file.
func (m *Master) passAudit() {
	if m.now.Before(m.holding.site.roster.audit) {
		return
	}
	m.holding.site.roster.audit = m.now.Add(m.config.Queue.Every)
	m.holding.site.placing.unsolved = true // slots may be due to be kept, or to be kept no longer
	m.holding.passStranded(&m.step)
	m.holding.site.passElsewhere(&m.step)
	m.holding.site.replication.passLostCopies(&m.step, &m.holding.site.roster, &m.holding.site.list)
	roundOpen := m.holding.site.list.round.open != 0 && m.now.Sub(m.holding.site.list.round.sent) < m.config.List.RoundWait
	for _, w := range byKey(m.holding.site.roster.members) {
		m.passOvertaken(w)
		switch {
		case !w.talk.asked.IsZero():
			if m.now.Sub(w.talk.asked) >= m.config.Queue.Every {
				m.wantState(w)
			}
		case !w.described || len(w.placements) > 0 && m.now.Sub(w.talk.heard) >= m.config.Members.AuditAfter:
			m.wantState(w)
		case !w.row.listed || w.row.n < m.holding.site.list.version.N && !roundOpen:
			m.holding.site.list.greet(&m.step, w)
		}
	}
}

// pilotDown takes a member out: what it had in hand is to be run elsewhere,
// and what only its cache is known to hold is looked for. One that was gone before
// this master met it, as its predecessor is, had nothing by this master's lists.
func (m *Master) pilotDown(e PilotDown) {
	if !m.inOffice {
		return
	}
	if m.holding.site.roster.lost[e.Pilot] = true; e.Left {
		delete(m.holding.site.roster.lost, e.Pilot)
	}
	if w := m.holding.site.roster.members[e.Pilot]; w != nil {
		m.part(w, !e.Left, e.Reason)
	}
	m.holding.outbox.departed = append(m.holding.outbox.departed, task.Departure{Pilot: e.Pilot, Dead: !e.Left, Reason: e.Reason})
	m.endCensus()
	m.holding.outbox.syncSoon(&m.step, 0)
}

// part does without a member. What it was running when it died goes to another
// node first.
func (m *Master) part(w *member, died bool, reason string) {
	all, lost := w.inOrder(), false
	delete(m.holding.site.roster.members, w.id)
	delete(m.holding.site.roster.peers, w.peer)
	if w.described {
		m.holding.site.roster.size.described--
	}
	delete(m.holding.site.placing.marked, w.id)
	m.holding.site.placing.matrix.RemovePilot(w.id)
	m.holding.site.roster.size.slots -= w.counted.slots
	m.holding.site.roster.size.free -= w.counted.free
	for _, j := range all {
		if h := m.holding.site.handout.remove(j); h != nil {
			if died && j.phase == started {
				h.avoid(w.node())
				lost = true
			}
			m.holding.backToReady(&m.step, h, j.phase != assigned)
		}
	}
	if lost {
		m.holding.site.roster.noteDeath(&m.step, w, reason)
	}
	m.holding.copies.forget(w.id)
	m.soles.handOversWithout(&m.step, &m.holding.site, w.id)
	m.holding.site.replication.replicasWithout(&m.step, &m.holding.site.roster, &m.holding.site.list, w.id)
	m.searches.searchFilesOf(&m.step, &m.holding.site, w.id)
	delete(m.holding.outbox.joined, w.id)
	delete(m.holding.outbox.pauses, w.id)
}

// fromPilot handles a worker's message.
func (m *Master) fromPilot(e FromPilot) {
	w := m.holding.site.roster.peers[e.From]
	if !m.inOffice || w == nil {
		return // not on the roster: it will introduce itself
	}
	w.talk.heard = m.now
	switch said := e.Message.(type) {
	case message.State:
		w.talk.said, w.talk.seen = said.Number, said.Seen
		m.state(w, said)
		m.endCensus()
	case message.Report:
		w.talk.said, w.talk.seen = said.Number, said.Seen
		m.report(w, said)
	}
}

// undescribed tells whether some member has not told its state yet.
func (roster *roster) undescribed() bool {
	for _, w := range roster.members {
		if !w.described {
			return true
		}
	}
	return false
}

// askMissed asks those directly whom the census has not reached.
func (roster *roster) askMissed(at *step) {
	for _, w := range byKey(roster.members) {
		if !w.described && w.talk.asked.IsZero() {
			at.wantState(w)
		}
	}
}

// censusAsks tells whether the answers to a census are still to come.
func (l *list) censusAsks() bool {
	return l.round.census || l.round.open != 0 && l.round.censusRound == l.round.open
}

// endCensus lets assignments begin when every member has told its state.
func (m *Master) endCensus() {
	if m.holding.site.roster.census.IsZero() || m.now.Before(m.holding.site.roster.census) && (m.holding.site.list.censusAsks() || m.holding.site.roster.undescribed() || m.own.on && !m.own.answered) {
		return
	}
	m.holding.site.roster.census = time.Time{}
	m.holding.giveRecalled(&m.step)
	m.holding.site.roster.retractStrays(&m.step, &m.holding.site.handout)
}

// retractStrays takes back what pilots have not started of leases that the
// queue does not count to this site.
func (roster *roster) retractStrays(at *step, hand *handout) {
	if at.provisional || len(hand.strays) == 0 {
		return
	}
	for _, w := range byKey(roster.members) {
		for _, j := range w.inOrder() {
			if j.held == nil && j.phase == assigned {
				at.retract(j)
			}
		}
	}
}
