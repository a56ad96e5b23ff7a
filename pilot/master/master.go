package master

import (
	"cmp"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// Master is the core of a site's master (004, section III-B): it holds the
// hand-out, keeps the task list and the rank matrix, assigns tasks to pilots,
// decides which tasks of the hand-out have their inputs by now, and speaks
// for the site with the queue.
type Master struct {
	step
	holding  holding
	soles    soleCopies
	searches searches
	ledger   ledger
}

// holding is what the site holds of the queue's tasks, with whom it answers to for
// them: the queue, by the outbox, and the pilots that keep copies.
type holding struct {
	site   site
	outbox outbox
	copies copies
}

// site is how the site stands: the parts that an assignment, a start and an end
// change together. What they do in common is its business, and only that.
type site struct {
	handout     handout
	roster      roster
	list        list
	placing     placing
	replication replication
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
	serial      uint64        // of the last Assign or Want; never begins anew
	usualRun    time.Duration // of the site's payloads; 0 while not known
}

// handout is what the queue has leased to the site, and the files that its tasks
// read and make.
type handout struct {
	leases    map[task.LeaseID]*lease
	held      map[task.ID]*held
	files     map[task.LFN]*known
	missed    map[task.LFN]bool        // files that tasks waited for at the last audit, or have begun to since
	strays    map[task.ID][]*placement // placements of tasks that are not held, by task
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
	nodes   health.Nodes
	size    siteSize
}

// placing is who gets which task, and when that is decided.
type placing struct {
	compiler  *matcher.Compiler
	matrix    *matcher.Matrix
	solving   solving
	durations matcher.Runs
	pace      matcher.Pace          // of stage-in
	unsolved  bool                  // the matrix has changed since it was solved
	follows   bool                  // some task may follow what runs, by the matrix
	solved    time.Time             // when it was
	solveDue  time.Time             // when it is to be solved again; zero: at the next event
	waitDue   time.Time             // when slots that wait are looked at again; zero: none does
	retractAt time.Time             // when idle slots look for prefilled tasks; zero: never
	marked    map[task.PilotID]bool // members whose places may be other ones, by what may follow what they run
}

// New makes a master that is not in office.
func New(config Config, self task.PilotID, compiler *matcher.Compiler) *Master {
	m := &Master{step: step{config: cmp.Or(config, DefaultConfig()), self: self}, holding: holding{site: site{placing: placing{compiler: compiler}}}}
	m.reset()
	return m
}

func (m *Master) reset() {
	m.fenced, m.own = false, own{}
	m.holding.reset(m.term)
	m.soles.moving = make(map[task.OutputID]*handOver)
	m.searches = searches{byName: make(map[task.LFN]*search)}
}

func (holding *holding) reset(term task.Term) {
	holding.site.handout.reset()
	holding.site.roster.reset()
	holding.site.list.reset(term)
	holding.site.placing.reset(term)
	holding.site.replication = replication{}
	holding.outbox.reset()
	holding.copies.reset()
}

func (hand *handout) reset() {
	*hand = handout{
		leases: make(map[task.LeaseID]*lease), held: make(map[task.ID]*held), files: make(map[task.LFN]*known),
		missed: make(map[task.LFN]bool), strays: make(map[task.ID][]*placement), gone: make(map[message.LeasedID]uint64),
		counts: taskCounts{classes: make(map[task.Class]int)},
	}
	hand.cancelled.reset()
}

func (r *roster) reset() {
	*r = roster{
		members: make(map[task.PilotID]*member), peers: make(map[task.PeerID]*member), lost: make(map[task.PilotID]bool),
	}
}

// reset keeps what is known of run times: they are the site's, not the term's.
func (p *placing) reset(term task.Term) {
	*p = placing{
		compiler: p.compiler, durations: p.durations, pace: p.pace, matrix: matcher.NewMatrix(term), marked: make(map[task.PilotID]bool),
	}
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
		m.ledger.ownCache(&m.step, &m.holding.outbox, e)
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
	m.searches.passSearches(&m.step, &m.holding)
	m.holding.site.passList(&m.step)
	m.holding.site.placing.passWaits(&m.step)
	m.holding.site.lookAtNodes(&m.step, &m.holding.outbox)
	m.holding.site.assign(&m.step, &m.holding.outbox)
	m.holding.site.passReplicas(&m.step, &m.holding.outbox)
	m.passPauses()
	m.holding.site.passRetracts(&m.step, &m.holding.outbox)
	m.holding.copies.passCopies(&m.step, &m.holding.site.handout, &m.holding.site.roster, &m.holding.outbox)
	m.passSync()
}

// Deadline is when Step wants a Tick at the latest; zero means never.
func (m *Master) Deadline() time.Time {
	if !m.inOffice {
		return time.Time{}
	}
	first := m.holding.site.roster.audit
	earliest := func(t time.Time) {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	earliest(m.holding.site.roster.census)
	earliest(m.holding.site.list.round.due)
	earliest(m.holding.site.list.round.period)
	earliest(m.holding.outbox.syncDeadline(&m.step, &m.holding.site))
	earliest(m.holding.site.placing.retractAt)
	earliest(m.holding.site.placing.solveDue)
	earliest(m.holding.site.replication.due)
	earliest(m.holding.site.placing.waitDue)
	earliest(m.holding.site.roster.nodes.Due())
	earliest(m.holding.copies.due)
	for _, s := range m.searches.byName {
		earliest(s.again)
	}
	return first
}

// InOffice tells whether this pilot serves its site.
func (m *Master) InOffice() bool { return m.inOffice }

// Provisional tells whether it does so without the queue's word.
func (m *Master) Provisional() bool { return m.provisional }

// Settled tells whether the queue has everything that this master knows.
func (m *Master) Settled() bool { return m.holding.outbox.empty() }

// Waiting is the number of outcomes that the queue has not judged yet.
func (m *Master) Waiting() int { return len(m.holding.outbox.outcomes) }

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
		m.holding.site.setSettings(&m.step, e.Settings)
	}
	m.heard = m.now
	if !e.Provisional {
		clear(m.holding.site.roster.lost)
	}
	for _, pilot := range e.Missing {
		if m.holding.site.roster.members[pilot] == nil {
			m.holding.site.roster.lost[pilot] = true
		}
	}
	m.holding.site.roster.audit = m.now.Add(m.config.Queue.Every)
	m.holding.outbox.begin(m.now)
	if again {
		m.beginTerm()
	}
	for _, lease := range e.Leases {
		m.holding.addLease(&m.step, lease)
		m.holding.reconcile(&m.step, lease)
	}
	if again {
		m.holding.site.roster.retractStrays(&m.step, &m.holding.site.handout)
	} else {
		if !e.Alone {
			m.holding.site.roster.census = m.now.Add(m.config.Members.CensusWait)
		}
		if e.Own {
			m.holding.site.roster.census = m.now.Add(ownCensus)
		}
		m.holding.site.list.round.census, m.holding.site.list.round.copies = true, e.Provisional
		m.holding.site.list.hurry(m.now)
	}
	m.holding.revoke(&m.step, e.Revoked) // with the census to come, where there is one
}

// setSettings takes the site's settings. Who works for itself needs no rounds,
// and takes what the queue has chosen.
func (site *site) setSettings(at *step, settings task.SiteSettings) {
	before := at.settings
	at.settings = settings
	if at.own.on {
		at.settings.RoundEvery, at.settings.Solver, at.settings.Replicate = 0, "", ""
	}
	if at.settings.LocalityWait != before.LocalityWait {
		site.placing.unsolved = true
	}
	if at.settings.Solver != before.Solver {
		site.placing.solving = solving{}
		site.placing.unsolved = true
	}
	if at.settings.Rank != before.Rank {
		site.relist(at)
	}
	site.followPolicies(at)
}

// beginTerm starts list and matrix anew and has every member answer them.
func (m *Master) beginTerm() {
	for _, h := range m.holding.site.handout.held {
		m.holding.site.handout.setNumber(h, 0)
	}
	m.holding.site.list.reset(m.term)
	m.holding.site.placing.solving = solving{}
	m.holding.site.replication = replication{numbers: m.holding.site.replication.numbers}
	m.holding.site.placing.matrix = matcher.NewMatrix(m.term)
	m.holding.site.followPolicies(&m.step)
	for _, h := range byKey(m.holding.site.handout.held) {
		if h.phase <= ready {
			m.holding.site.list.offer(h)
		}
	}
	for _, w := range byKey(m.holding.site.roster.members) {
		w.row = rowState{}
		if w.described {
			m.holding.outbox.joins(&m.step, &m.holding.site.handout, w) // in this term too
		}
		m.holding.site.refreshPlaces(&m.step, w)
		m.wantState(w)
	}
	m.holding.copies.reset() // new keepers get everything
	for _, s := range byKey(m.searches.byName) {
		m.holding.site.list.askFor(&m.step, s) // the round that asked is not waited for any more
	}
}

// mayStart tells whether tasks may be assigned now: not before the census is
// in, not when the queue has another master, and not when it has been silent
// for so long that the leases may have been given to others, nor while this may
// be a part of the site that is cut off.
func (site *site) mayStart(at *step, outbox *outbox) bool {
	if !site.roster.census.IsZero() || at.fenced || site.mayBeCutOff(at, outbox) {
		return false
	}
	for _, l := range site.handout.leases {
		limit := time.Duration(float64(l.ttl) * at.config.Queue.Autonomy)
		if l.ttl > 0 && at.now.Sub(at.heard) > limit {
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
func (site *site) mayBeCutOff(at *step, outbox *outbox) bool {
	silent := at.now.Sub(at.heard)
	if !at.provisional && outbox.call.failures == 0 && silent <= 3*at.config.Queue.Every || silent > cutOffFor {
		return false
	}
	known := len(site.roster.members) + len(site.roster.lost)
	return known-site.roster.size.described > 1 && 2*site.roster.size.described <= known
}
