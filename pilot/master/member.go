package master

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// member is what the master knows of one pilot. Slots and resources are
// reckoned from assignments and reports, by the same rule that the pilot
// applies itself: the oldest assignment that fits takes a freed slot.
type member struct {
	id        task.PilotID
	peer      task.PeerID
	host      string
	described bool // its state has come
	draining  bool
	stopped   string       // why it takes no new work; "" while it does
	declines  string       // its own reason for that
	judged    string       // its master's
	health    health.State // of its node
	total     capacity
	used      capacity
	counted   counted // its share in the sums of the site
	jobs      map[message.LeasedID]*job
	waiting   []*job // assigned, without a slot, oldest first
	row       rowState
	asked     time.Time // when its state was asked for; zero: it has come since
	heard     time.Time
	said      uint64 // number of its last state or report
	given     uint64 // serial of the last Assign to it
	seen      uint64 // and of the last that it has told to have seen
	cache     message.CacheReport
	promised  task.Bytes // of sole copies that it was told to take over
	copyless  time.Time  // until then it is given no replicas: one has failed
	lapses    int        // how often in a row it has left orders to copy unanswered
	unplanned bool       // the next session passes it over, which ends its plan
	ends      time.Time  // of its lifetime; zero: not known
	idleSince time.Time  // since when it has a free slot; zero: it has none
	keptFree  int        // free slots that are kept for a task that is about to be ready
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

func (w *member) take(j *job) {
	j.holding = true
	w.used.slots++
	w.used.resources = w.used.resources.Add(j.need)
}

func (w *member) release(j *job) {
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
	w.waiting = slices.DeleteFunc(w.waiting, func(j *job) bool {
		if !j.isSuccessor() && w.fits(j.need) {
			w.take(j)
			return true
		}
		return false
	})
}

func (w *member) unwait(j *job) {
	w.waiting = slices.DeleteFunc(w.waiting, func(other *job) bool { return other == j })
}

// inOrder lists what a member has in hand by the order of assignment.
func (w *member) inOrder() []*job {
	jobs := make([]*job, 0, len(w.jobs))
	for _, j := range w.jobs {
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, byOrder)
	return jobs
}

// pilotUp greets a member. In a census it answers anyway; one that has
// reconnected may have lost messages, or the master some of its.
func (m *Master) pilotUp(e PilotUp) {
	if !m.inOffice {
		return
	}
	again := m.site.roster.members[e.Pilot] != nil || m.site.roster.lost[e.Pilot]
	w := m.site.roster.meet(&m.step, e.Pilot, e.Peer)
	if again || !m.site.list.censusAsks() {
		w.row.listed = false
		m.wantState(w)
	}
}

// meet takes a member in.
func (roster *roster) meet(at *step, pilot task.PilotID, peer task.PeerID) *member {
	w := roster.members[pilot]
	if w == nil {
		w = &member{id: pilot, jobs: make(map[message.LeasedID]*job)}
		roster.members[pilot] = w
	}
	if w.peer != peer {
		delete(roster.peers, w.peer)
	}
	delete(roster.lost, pilot)
	w.peer, w.heard = peer, at.now
	roster.peers[peer] = w
	return w
}

// wantState asks a member for its whole state. What was assigned before and
// is not in that state never arrived.
func (at *step) wantState(w *member) {
	at.serial++
	w.asked = at.now
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
	if m.now.Before(m.site.roster.audit) {
		return
	}
	m.site.roster.audit = m.now.Add(m.config.Queue.Every)
	m.site.placing.unsolved = true // slots may be due to be kept, or to be kept no longer
	m.passStranded()
	m.site.passElsewhere(&m.step)
	m.site.replication.passLostCopies(&m.step, &m.site.roster, &m.site.list)
	roundOpen := m.site.list.open != 0 && m.now.Sub(m.site.list.sent) < m.config.List.RoundWait
	for _, id := range slices.Sorted(maps.Keys(m.site.roster.members)) {
		w := m.site.roster.members[id]
		m.passOvertaken(w)
		switch {
		case !w.asked.IsZero():
			if m.now.Sub(w.asked) >= m.config.Queue.Every {
				m.wantState(w)
			}
		case !w.described || len(w.jobs) > 0 && m.now.Sub(w.heard) >= m.config.Members.AuditAfter:
			m.wantState(w)
		case !w.row.listed || w.row.n < m.site.list.version.N && !roundOpen:
			m.site.list.greet(&m.step, w)
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
	if m.site.roster.lost[e.Pilot] = true; e.Left {
		delete(m.site.roster.lost, e.Pilot)
	}
	if w := m.site.roster.members[e.Pilot]; w != nil {
		m.part(w, !e.Left, e.Reason)
	}
	m.outbox.departed = append(m.outbox.departed, task.Departure{Pilot: e.Pilot, Dead: !e.Left, Reason: e.Reason})
	m.endCensus()
	m.outbox.syncSoon(&m.step, 0)
}

// part does without a member. What it was running when it died goes to another
// node first.
func (m *Master) part(w *member, died bool, reason string) {
	jobs, lost := w.inOrder(), false
	delete(m.site.roster.members, w.id)
	delete(m.site.roster.nodes.marked, w.id)
	delete(m.site.roster.peers, w.peer)
	if w.described {
		m.site.roster.size.described--
	}
	delete(m.site.placing.toLookAt, w.id)
	m.site.placing.matrix.RemovePilot(w.id)
	m.site.roster.size.slots -= w.counted.slots
	m.site.roster.size.free -= w.counted.free
	for _, j := range jobs {
		if h := m.site.handout.remove(j); h != nil {
			if died && j.phase == started {
				h.avoid(w.node())
				lost = true
			}
			m.backToReady(h, j.phase != assigned)
		}
	}
	if lost {
		m.site.noteDeath(&m.step, &m.outbox, w, reason)
	}
	m.copies.forget(w.id)
	m.soles.handOversWithout(&m.step, &m.site, w.id)
	m.site.replication.replicasWithout(&m.step, &m.site.roster, &m.site.list, w.id)
	m.searches.searchFilesOf(&m.step, &m.site, w.id)
	delete(m.outbox.joined, w.id)
	delete(m.outbox.pauses, w.id)
}

// fromPilot handles a worker's message.
func (m *Master) fromPilot(e FromPilot) {
	w := m.site.roster.peers[e.From]
	if !m.inOffice || w == nil {
		return // not on the roster: it will introduce itself
	}
	w.heard = m.now
	switch said := e.Message.(type) {
	case message.State:
		w.said, w.seen = said.Number, said.Seen
		m.state(w, said)
		m.endCensus()
	case message.Report:
		w.said, w.seen = said.Number, said.Seen
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
	for _, id := range slices.Sorted(maps.Keys(roster.members)) {
		if w := roster.members[id]; !w.described && w.asked.IsZero() {
			at.wantState(w)
		}
	}
}

// censusAsks tells whether the answers to a census are still to come.
func (l *list) censusAsks() bool {
	return l.census || l.open != 0 && l.censusRound == l.open
}

// endCensus lets assignments begin when every member has told its state.
func (m *Master) endCensus() {
	if m.site.roster.census.IsZero() || m.now.Before(m.site.roster.census) && (m.site.list.censusAsks() || m.site.roster.undescribed() || m.own.on && !m.own.answered) {
		return
	}
	m.site.roster.census = time.Time{}
	m.giveRecalled()
	m.site.roster.retractStrays(&m.step, &m.site.handout)
}

// retractStrays takes back what pilots have not started of leases that the
// queue does not count to this site.
func (roster *roster) retractStrays(at *step, hand *handout) {
	if at.provisional || len(hand.strays) == 0 {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(roster.members)) {
		for _, j := range roster.members[id].inOrder() {
			if j.held == nil && j.phase == assigned {
				at.retract(j)
			}
		}
	}
}
