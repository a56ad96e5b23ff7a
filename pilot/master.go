package pilot

import (
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// Master is the core of a site's master (004, section III-B): it holds the
// hand-out, keeps the task list and the rank matrix, assigns tasks to pilots,
// decides which tasks of the hand-out have their inputs by now, and speaks
// for the site with the queue.
type Master struct {
	config   Config
	self     task.PilotID
	compiler *matcher.Compiler
	now      time.Time
	out      []Action

	inOffice    bool
	provisional bool
	term        task.Term
	settings    task.SiteSettings
	census      time.Time // assignments wait for the census until then
	heard       time.Time // last answer of the queue

	leases  map[task.LeaseID]*lease
	held    map[task.ID]*held
	files   map[task.LFN]*task.File
	waiters map[task.LFN][]task.ID // held tasks that miss a file
	lost    map[task.LFN]*search
	pilots  map[task.PilotID]*worker
	peers   map[task.PeerID]task.PilotID

	list   list
	matrix *matcher.Matrix
	outbox outbox
	copies copies
}

// NewMaster makes a master that is not in office.
func NewMaster(config Config, self task.PilotID, compiler *matcher.Compiler) *Master {
	m := &Master{config: config.withDefaults(), self: self, compiler: compiler}
	m.reset()
	return m
}

func (m *Master) reset() {
	m.leases = make(map[task.LeaseID]*lease)
	m.held = make(map[task.ID]*held)
	m.files = make(map[task.LFN]*task.File)
	m.waiters = make(map[task.LFN][]task.ID)
	m.lost = make(map[task.LFN]*search)
	m.pilots = make(map[task.PilotID]*worker)
	m.peers = make(map[task.PeerID]task.PilotID)
	m.outbox.reset()
	m.copies.reset()
	m.list.reset(m.term)
	m.matrix = matcher.NewMatrix(m.term)
}

// LeftOffice ends a mastership: another term is in force.
type LeftOffice struct{}

func (LeftOffice) event() {}

// Step takes an event and returns what is to be done, in order.
func (m *Master) Step(now time.Time, event Event) []Action {
	if now.After(m.now) {
		m.now = now
	}
	m.out = nil
	switch e := event.(type) {
	case TookOffice:
		m.tookOffice(e)
	case LeftOffice:
		m.inOffice = false
		m.reset()
	case PilotUp:
		m.pilotUp(e)
	case PilotDown:
		m.pilotDown(e)
	case FromPilot:
		m.fromPilot(e)
	case BroadcastDone:
		m.broadcastDone(e)
	case SyncAnswered:
		m.syncAnswered(e)
	case Tick:
	}
	if m.inOffice {
		m.pass()
	}
	return m.out
}

// Deadline is when Step wants a Tick at the latest; zero means never.
func (m *Master) Deadline() time.Time {
	if !m.inOffice {
		return time.Time{}
	}
	var first time.Time
	earliest := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if m.now.Before(m.census) {
		earliest(m.census)
	}
	earliest(m.list.deadline())
	earliest(m.syncDeadline())
	earliest(m.retractDeadline())
	for _, s := range m.lost {
		earliest(s.again)
	}
	return first
}

// InOffice tells whether this pilot serves its site.
func (m *Master) InOffice() bool { return m.inOffice }

// Settled tells whether the queue has everything that this master knows.
func (m *Master) Settled() bool { return m.outbox.empty() }

// Waiting is the number of outcomes that the queue has not judged yet.
func (m *Master) Waiting() int { return len(m.outbox.outcomes) }

func (m *Master) act(a Action) { m.out = append(m.out, a) }

func (m *Master) tell(pilot task.PilotID, message Message) {
	if w := m.pilots[pilot]; w != nil {
		m.act(Tell{To: w.peer, Message: message})
	}
}

// tookOffice begins a mastership, or confirms a provisional one.
func (m *Master) tookOffice(e TookOffice) {
	again := m.inOffice
	old := m.outbox
	workers := m.pilots
	m.term = e.Term
	if !again {
		m.reset()
	} else {
		// The queue confirms what was provisional: list versions and row
		// answers belong to a term, tasks and outcomes do not.
		m.list.reset(m.term)
		m.matrix = matcher.NewMatrix(m.term)
		for _, h := range m.held {
			h.no = 0
		}
		m.outbox = old
		m.outbox.flight = nil
	}
	m.inOffice, m.provisional = true, e.Provisional
	if e.Settings.Site != "" {
		m.settings = e.Settings
	}
	m.heard = m.now
	m.outbox.poll = m.now
	for _, lease := range e.Leases {
		m.addLease(lease)
	}
	m.revoke(e.Revoked)
	if again {
		for _, id := range sortedKeys(workers) {
			m.listAgain(workers[id])
		}
		m.relist()
		return
	}
	if !e.Alone {
		m.census = m.now.Add(m.config.CensusWait)
	}
	m.list.census = true
	m.list.hurry(m.now)
}

// listAgain has a known pilot answer the list of a new term.
func (m *Master) listAgain(w *worker) {
	w.listed = false
	m.greet(w)
}

// pass carries out what is due.
func (m *Master) pass() {
	m.passSearches()
	m.passList()
	m.assign()
	m.passRetracts()
	m.passCopies()
	m.passSync()
}

// mayStart tells whether tasks may be assigned now: not before the census is
// in, and not when the queue has been silent for so long that the leases may
// have been given to others (DESIGN section 3, lease clock).
func (m *Master) mayStart() bool {
	if m.now.Before(m.census) {
		return false
	}
	for _, l := range m.leases {
		limit := time.Duration(float64(l.ttl) * m.config.Autonomy)
		if l.ttl > 0 && m.now.Sub(m.heard) > limit {
			return false
		}
	}
	return true
}

// pilotUp greets a member: its state is wanted, the list is sent.
func (m *Master) pilotUp(e PilotUp) {
	if !m.inOffice {
		return
	}
	w := m.pilots[e.Pilot]
	if w == nil {
		w = &worker{id: e.Pilot, jobs: make(map[task.ID]*held)}
		m.pilots[e.Pilot] = w
	}
	w.peer = e.Peer
	m.peers[e.Peer] = e.Pilot
	m.act(Tell{To: e.Peer, Message: Want{Term: m.term, State: true}})
	m.greet(w)
}

// greet sends the whole list to a pilot.
func (m *Master) greet(w *worker) {
	m.flush()
	m.act(Tell{To: w.peer, Message: Snapshot{List: m.list.snapshot(m.term)}})
}

// pilotDown takes a member out: what it had in hand is to be run elsewhere.
func (m *Master) pilotDown(e PilotDown) {
	w := m.pilots[e.Pilot]
	if !m.inOffice || w == nil {
		return
	}
	delete(m.pilots, e.Pilot)
	delete(m.peers, w.peer)
	m.matrix.RemovePilot(e.Pilot)
	for _, id := range sortedKeys(w.jobs) {
		h := w.jobs[id]
		if h.phase == assigned || h.phase == started {
			m.backToReady(h, h.phase == started)
		}
	}
	m.copies.forget(e.Pilot)
	m.outbox.departed = append(m.outbox.departed, task.Departure{Pilot: e.Pilot, Dead: !e.Left, Reason: e.Reason})
	m.syncSoon(0)
}

// fromPilot handles a worker's message.
func (m *Master) fromPilot(e FromPilot) {
	if !m.inOffice {
		return
	}
	w := m.pilots[m.peers[e.From]]
	if w == nil {
		return // not on the roster: it will introduce itself
	}
	switch message := e.Message.(type) {
	case State:
		m.state(w, message)
	case Report:
		m.report(w, message)
	}
}
