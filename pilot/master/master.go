package master

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// Master is the core of a site's master (004, section III-B): it holds the
// hand-out, keeps the task list and the rank matrix, assigns tasks to pilots,
// decides which tasks of the hand-out have their inputs by now, and speaks
// for the site with the queue.
type Master struct {
	step
	handout     handout
	roster      roster
	list        list
	placing     placing
	outbox      outbox
	copies      copies
	handOvers   map[task.OutputID]*handOver
	searches    map[task.LFN]*search
	replication replication
	ledger      ledger
}

// step is what holds for all parts while an event is handled, and what is to be
// done because of it. It is the one thing that every part may be given.
type step struct {
	now         time.Time
	out         []message.Action
	config      Config
	self        task.PilotID
	inOffice    bool
	provisional bool
	fenced      bool // the queue has another master in office
	term        task.Term
	settings    task.SiteSettings
	heard       time.Time // when the last call was sent that the queue has answered
	own         own
	serial      uint64 // of the last Assign or Want; never begins anew
}

// handout is what the queue has leased to the site, and the files that its tasks
// read and make.
type handout struct {
	leases    map[task.LeaseID]*lease
	held      map[task.ID]*held
	files     map[task.LFN]*known
	missed    map[task.LFN]bool  // files that tasks waited for at the last audit, or have begun to since
	strays    map[task.ID][]*job // jobs of tasks that are not held, by task
	cancelled cancellations
	gone      map[message.LeasedID]uint64 // tasks let go of since that call to the queue
	counts    taskCounts
}

// roster is who is there and what each pilot has in hand.
type roster struct {
	members map[task.PilotID]*member
	peers   map[task.PeerID]*member
	lost    map[task.PilotID]bool // without a goodbye, since the queue answered last
	census  time.Time             // assignments wait until then, or until all have answered
	audit   time.Time             // when every member is looked at again
	nodes   nodes
	size    siteSize
}

// placing is who gets which task, and when that is decided.
type placing struct {
	compiler  *matcher.Compiler
	given     matcher.Solver // instead of the site's; nil: by the settings
	matrix    *matcher.Matrix
	solving   solving
	usualRun  time.Duration // of the site's payloads; 0 while not known
	durations matcher.Runs
	unsolved  bool                  // the matrix has changed since it was solved
	solved    time.Time             // when it was
	solveDue  time.Time             // when it is to be solved again; zero: at the next event
	waitDue   time.Time             // when slots that wait are looked at again; zero: none does
	retractAt time.Time             // when idle slots look for prefilled tasks; zero: never
	toLookAt  map[task.PilotID]bool // members to be looked at by passSuccessors
}

// New makes a master that is not in office.
func New(config Config, self task.PilotID, compiler *matcher.Compiler) *Master {
	m := &Master{step: step{config: cmp.Or(config, DefaultConfig()), self: self}, placing: placing{compiler: compiler}}
	m.reset()
	return m
}

func (m *Master) reset() {
	m.handout.leases = make(map[task.LeaseID]*lease)
	m.handout.held = make(map[task.ID]*held)
	m.handout.files = make(map[task.LFN]*known)
	m.handout.missed = make(map[task.LFN]bool)
	m.searches = make(map[task.LFN]*search)
	m.roster.members = make(map[task.PilotID]*member)
	m.roster.peers = make(map[task.PeerID]*member)
	m.roster.lost = make(map[task.PilotID]bool)
	m.handout.strays = make(map[task.ID][]*job)
	m.handOvers = make(map[task.OutputID]*handOver)
	m.handout.cancelled.reset()
	m.handout.gone = make(map[message.LeasedID]uint64)
	m.handout.counts, m.roster.size = taskCounts{classes: make(map[task.Class]int)}, siteSize{}
	m.own = own{}
	m.placing.toLookAt = make(map[task.PilotID]bool)
	m.fenced, m.placing.unsolved, m.placing.retractAt, m.placing.usualRun = false, false, time.Time{}, 0
	m.placing.solved, m.placing.solveDue, m.placing.waitDue = time.Time{}, time.Time{}, time.Time{}
	m.roster.nodes = nodes{marked: make(map[task.PilotID]bool)}
	m.outbox.reset()
	m.copies.reset()
	m.list.reset(m.term)
	m.placing.solving = solving{}
	m.replication = replication{}
	m.placing.matrix = matcher.NewMatrix(m.term)
}

// LeftOffice ends a mastership: another term is in force.
type LeftOffice struct{}

// Step takes an event and returns what is to be done, in order.
func (m *Master) Step(now time.Time, event message.Event) []message.Action {
	if now.After(m.now) {
		m.now = now
	}
	m.out = nil
	switch e := event.(type) {
	case TookOffice:
		m.tookOffice(e)
	case StandDown:
		m.standDown()
		return m.out
	case OwnCache:
		m.ownCache(e)
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
	case message.Tick:
	}
	if m.inOffice {
		m.pass()
	}
	return m.out
}

// pass carries out what is due.
func (m *Master) pass() {
	m.endCensus()
	m.passAudit()
	m.passSearches()
	m.passList()
	m.passWaits()
	m.passNodes()
	m.assign()
	m.passSuccessors()
	m.passReplicas()
	m.passPauses()
	m.passRetracts()
	m.copies.passCopies(&m.step, &m.handout, &m.roster, &m.outbox)
	m.passSync()
}

// Deadline is when Step wants a Tick at the latest; zero means never.
func (m *Master) Deadline() time.Time {
	if !m.inOffice {
		return time.Time{}
	}
	first := m.roster.audit
	earliest := func(t time.Time) {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	earliest(m.roster.census)
	earliest(m.list.due)
	earliest(m.list.period)
	earliest(m.outbox.syncDeadline(&m.step, &m.roster))
	earliest(m.placing.retractAt)
	earliest(m.placing.solveDue)
	earliest(m.replication.due)
	earliest(m.placing.waitDue)
	earliest(m.roster.nodes.due)
	earliest(m.copies.due)
	for _, s := range m.searches {
		earliest(s.again)
	}
	return first
}

// InOffice tells whether this pilot serves its site.
func (m *Master) InOffice() bool { return m.inOffice }

// Provisional tells whether it does so without the queue's word.
func (m *Master) Provisional() bool { return m.provisional }

// Settled tells whether the queue has everything that this master knows.
func (m *Master) Settled() bool { return m.outbox.empty() }

// Waiting is the number of outcomes that the queue has not judged yet.
func (m *Master) Waiting() int { return len(m.outbox.outcomes) }

func (at *step) act(a message.Action) { at.out = append(at.out, a) }

func (at *step) tell(w *member, said message.Message) {
	at.act(message.Tell{To: w.peer, Message: said})
}

// tookOffice begins a mastership, or goes on with it under another term: the
// queue confirms what was provisional. List versions and row answers belong to
// a term; members, tasks and outcomes do not.
func (m *Master) tookOffice(e TookOffice) {
	again := m.inOffice
	m.term = e.Term
	if !again {
		m.reset()
	}
	m.inOffice, m.provisional, m.fenced = true, e.Provisional, false
	if m.own.on = e.Own; e.Own {
		m.ledger.known = 0 // the queue may have forgotten
	}
	if e.Settings.Site != "" {
		m.setSettings(e.Settings)
	}
	m.heard = m.now
	if !e.Provisional {
		clear(m.roster.lost)
	}
	for _, pilot := range e.Missing {
		if m.roster.members[pilot] == nil {
			m.roster.lost[pilot] = true
		}
	}
	m.roster.audit = m.now.Add(m.config.Queue.Every)
	m.outbox.begin(m.now)
	if again {
		m.beginTerm()
	}
	for _, lease := range e.Leases {
		m.addLease(lease)
		m.reconcile(lease)
	}
	if again {
		m.roster.retractStrays(&m.step, &m.handout)
	} else {
		if !e.Alone {
			m.roster.census = m.now.Add(m.config.Members.CensusWait)
		}
		if e.Own {
			m.roster.census = m.now.Add(ownCensus)
		}
		m.list.census, m.list.copies = true, e.Provisional
		m.list.hurry(m.now)
	}
	m.revoke(e.Revoked) // with the census to come, where there is one
}

// setSettings takes the site's settings. Who works for itself needs no rounds,
// and takes what the queue has chosen.
func (m *Master) setSettings(settings task.SiteSettings) {
	before := m.settings
	m.settings = settings
	if m.own.on {
		m.settings.RoundEvery, m.settings.Solver, m.settings.Replicate = 0, "", ""
	}
	if m.settings.LocalityWait != before.LocalityWait {
		m.placing.unsolved = true
	}
	if m.settings.Solver != before.Solver {
		m.placing.solving = solving{}
		m.placing.unsolved = true
	}
	if m.settings.Rank != before.Rank {
		m.relist()
	}
	m.followPolicies()
}

// beginTerm starts list and matrix anew and has every member answer them.
func (m *Master) beginTerm() {
	for _, h := range m.handout.held {
		m.handout.setNumber(h, 0)
	}
	m.list.reset(m.term)
	m.placing.solving = solving{}
	m.replication = replication{numbers: m.replication.numbers}
	m.placing.matrix = matcher.NewMatrix(m.term)
	m.followPolicies()
	for _, id := range slices.Sorted(maps.Keys(m.handout.held)) {
		if h := m.handout.held[id]; h.phase <= ready {
			m.list.offer(h)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.roster.members)) {
		w := m.roster.members[id]
		w.row = rowState{}
		if w.described {
			m.outbox.joins(&m.step, &m.handout, w) // in this term too
		}
		m.refreshPlaces(w)
		m.wantState(w)
	}
	m.copies.reset() // new keepers get everything
	for _, id := range slices.Sorted(maps.Keys(m.searches)) {
		m.list.askFor(&m.step, m.searches[id]) // the round that asked is not waited for any more
	}
}

// mayStart tells whether tasks may be assigned now: not before the census is
// in, not when the queue has another master, and not when it has been silent
// for so long that the leases may have been given to others (DESIGN section 3,
// lease clock), nor while this may be a part of the site that is cut off.
func (m *Master) mayStart() bool {
	if !m.roster.census.IsZero() || m.fenced || m.mayBeCutOff() {
		return false
	}
	for _, l := range m.handout.leases {
		limit := time.Duration(float64(l.ttl) * m.config.Queue.Autonomy)
		if l.ttl > 0 && m.now.Sub(m.heard) > limit {
			return false
		}
	}
	return true
}

// cutOffFor is how long a site that may be cut off waits, whatever its lease: a
// few tasks that run twice cost less than slots that are idle for hours.
const cutOffFor = 10 * time.Minute

// mayBeCutOff tells whether the queue is silent, and half of the site or more, of
// several pilots, has gone without a goodbye since it answered last. Then not the
// queue may be away but this part of the site, and the rest has a master of its
// own, who runs the same hand-out. After a while it is more likely that they are
// dead.
func (m *Master) mayBeCutOff() bool {
	silent := m.now.Sub(m.heard)
	if !m.provisional && m.outbox.failures == 0 && silent <= 3*m.config.Queue.Every || silent > cutOffFor {
		return false
	}
	known := len(m.roster.members) + len(m.roster.lost)
	return known-m.roster.size.described > 1 && 2*m.roster.size.described <= known
}
