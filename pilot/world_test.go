package pilot_test

import (
	"bytes"
	"cmp"
	"container/heap"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/journal"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

const siteName = task.Site("siteA")

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is one site on virtual time: its pilots with the real cores, links
// between them, a storage element and a queue. The same calls give the same
// run.
type world struct {
	now      time.Time
	timeline timeline
	serial   uint64
	failed   func(format string, args ...any)
	notes    []string
	verbose  bool

	journals bool // of all masters
	compiler *matcher.Compiler
	queue    *queue
	nodes    []*node // by id
	term     task.Term
	office   *node
	storage  map[task.LFN]bool // by storage element name, attempts apart

	latency   time.Duration
	broadcast time.Duration // from CastList to each pilot
	syncTime  time.Duration // one way
	stageTime time.Duration
	upload    time.Duration
	runs      map[string]time.Duration // payload time by task name
	failures  map[string]int           // how often a task's payload fails
	slowStart func(n *node) time.Duration
	broken    map[[2]task.PilotID]bool // links on which messages are lost
	arrival   map[[2]task.PilotID]time.Time
	loseCall  bool // the next Sync is answered by an error before the queue has it
	loseReply bool // the next Sync is answered by an error, the queue has it
	noUploads bool // of the maker

	storageDown bool
	running     map[generation]map[*node]bool // payloads that run
	excused     map[task.ID]bool              // may run twice: somebody was held for dead
	started     map[task.ID]int
}

// happening is something that happens at a moment.
type happening struct {
	at     time.Time
	serial uint64
	do     func()
}

type timeline []happening

func (t timeline) Len() int { return len(t) }
func (t timeline) Less(i, j int) bool {
	return cmp.Or(t[i].at.Compare(t[j].at), cmp.Compare(t[i].serial, t[j].serial)) < 0
}
func (t timeline) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timeline) Push(x any)   { *t = append(*t, x.(happening)) }
func (t *timeline) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}

func newWorld(failed func(format string, args ...any)) *world {
	w := &world{
		now: epoch, failed: failed, compiler: matcher.NewCompiler(64),
		storage: make(map[task.LFN]bool), latency: time.Millisecond, broadcast: 5 * time.Millisecond,
		syncTime: 5 * time.Millisecond, stageTime: 10 * time.Millisecond, upload: 50 * time.Millisecond,
		runs: make(map[string]time.Duration), failures: make(map[string]int),
		broken: make(map[[2]task.PilotID]bool), arrival: make(map[[2]task.PilotID]time.Time),
		running: make(map[generation]map[*node]bool), excused: make(map[task.ID]bool), started: make(map[task.ID]int),
	}
	w.queue = newQueue(w)
	return w
}

func (w *world) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf("%7.3f ", w.now.Sub(epoch).Seconds())+fmt.Sprintf(format, args...))
}

// detail is a note for those who look closely.
func (w *world) detail(format string, args ...any) {
	if w.verbose {
		w.note(format, args...)
	}
}

func (w *world) after(d time.Duration, do func()) {
	w.serial++
	heap.Push(&w.timeline, happening{w.now.Add(d), w.serial, do})
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.timeline) > 0 && !w.timeline[0].at.After(end) {
		next := heap.Pop(&w.timeline).(happening)
		w.now = next.at
		next.do()
	}
	w.now = end
}

// runUntil lets time pass until something holds, at most for a while.
func (w *world) runUntil(limit time.Duration, holds func() bool) bool {
	end := w.now.Add(limit)
	for !holds() {
		if len(w.timeline) == 0 || w.timeline[0].at.After(end) {
			w.now = end
			return holds()
		}
		next := heap.Pop(&w.timeline).(happening)
		w.now = next.at
		next.do()
	}
	return true
}

func digestOf(parts ...string) task.Digest {
	return task.Digest(sha256.Sum256([]byte(strings.Join(parts, "\x00"))))
}

// node is one pilot with its cache.
type node struct {
	w      *world
	id     task.PilotID
	peer   task.PeerID
	self   matcher.Pilot
	alive  bool
	worker *worker.Worker
	master *master.Master
	// recorder writes what the master's core is told to the journal; nil: not.
	recorder *journal.Writer
	journal  bytes.Buffer
	cache    map[task.FileKey]bool
	sole     map[task.OutputID]bool // what the cache must not evict
	full     bool                   // it has no room for what others made
	capacity task.Bytes             // of its cache, as it tells
	making   int                    // copies under way
	mute     bool                   // orders to copy are never carried out
	copied   []task.LFN             // for replica policies

	wakeWorker, wakeMaster time.Time
	payloads               map[task.AttemptID]*payload
	drained                bool
	free                   task.Resources
	slots                  int
	given                  map[task.ID]bool // tasks that it was ever told to run
}

type payload struct {
	assignment message.Assignment
	killed     bool
	over       bool
}

// add starts a pilot; the master hears of it a little later.
func (w *world) add(id task.PilotID, slots int, change func(*matcher.Pilot)) *node {
	self := matcher.Pilot{
		ID: id, Site: siteName, Host: "host-" + string(id), Slots: slots, Arch: "amd64", OS: "linux", Lifetime: time.Hour,
		Resources: task.Resources{Cores: slots, Memory: 4 * task.GiB, Disk: 100 * task.GiB},
	}
	if change != nil {
		change(&self)
	}
	n := &node{
		w: w, id: id, peer: task.PeerID("peer-" + string(id)), self: self, alive: true,
		cache: make(map[task.FileKey]bool), sole: make(map[task.OutputID]bool), payloads: make(map[task.AttemptID]*payload), free: self.Resources, slots: slots, given: make(map[task.ID]bool),
	}
	evaluator := matcher.NewEvaluator(self, func(key task.FileKey) (task.Bytes, bool) { return 0, n.cache[key] }, w.compiler)
	n.worker = worker.New(worker.Config{}, self, n.peer, evaluator)
	n.master = master.New(master.Config{}, id, w.compiler)
	if w.journals {
		n.record()
	}
	w.nodes = append(w.nodes, n)
	slices.SortFunc(w.nodes, func(a, b *node) int { return cmp.Compare(a.id, b.id) })
	n.stepWorker(worker.SiteChanged{Settings: w.queue.settings})
	n.stepWorker(worker.CacheChanged{Cache: n.usage()})
	if w.office != nil && w.office.alive {
		office, term := w.office, w.term
		w.after(w.latency, func() { n.tellOffice(term, office) })
		w.after(2*w.latency, func() {
			if n.alive {
				office.stepMaster(master.PilotUp{Pilot: n.id, Peer: n.peer})
			}
		})
	}
	return n
}

func (w *world) node(id task.PilotID) *node {
	for _, n := range w.nodes {
		if n.id == id {
			return n
		}
	}
	w.failed("there is no pilot %s", id)
	return nil
}

func (w *world) byPeer(peer task.PeerID) *node {
	for _, n := range w.nodes {
		if n.peer == peer {
			return n
		}
	}
	return nil
}

func (w *world) live() (live []*node) {
	for _, n := range w.nodes {
		if n.alive {
			live = append(live, n)
		}
	}
	return live
}

// elect puts a pilot into office. With the queue away its term is provisional.
func (w *world) elect(n *node) {
	term := task.Term{Epoch: w.term.Epoch + 1, Peer: n.peer}
	took := master.TookOffice{Term: term, Settings: w.queue.settings, Alone: len(w.live()) == 1 && w.office == nil}
	if w.queue.away {
		took.Term = task.Term{Epoch: w.term.Epoch, Ballot: w.term.Ballot + 1, Peer: n.peer}
		took.Provisional = true
	} else {
		took.Leases, took.Revoked = w.queue.claim(n, term)
	}
	former := w.office
	w.office, w.term = n, took.Term
	w.note("%s is master, provisional=%v, %d leases", n.id, took.Provisional, len(took.Leases))
	n.tellOffice(w.term, n)
	n.stepMaster(took)
	n.stepMaster(master.PilotUp{Pilot: n.id, Peer: n.peer})
	for _, other := range w.nodes {
		if other == n {
			continue
		}
		if other.alive || former != nil {
			n.stepMaster(master.PilotUp{Pilot: other.id, Peer: other.peer})
		}
		if !other.alive {
			w.after(200*time.Millisecond, func() { w.down(n, other) })
			continue
		}
		delay := w.latency
		if w.slowStart != nil {
			delay = w.slowStart(other)
		}
		if w.broken[link(n, other)] {
			w.excuse(other) // it may not answer the census in time
		}
		w.after(delay, func() { other.tellOffice(took.Term, n) })
	}
}

// confirm has the queue confirm a provisional master.
func (w *world) confirm() {
	n, term := w.office, task.Term{Epoch: w.term.Epoch + 1, Peer: w.office.peer}
	leases, revoked := w.queue.claim(n, term)
	w.term = term
	w.note("the queue confirms %s, %d leases", n.id, len(leases))
	n.tellOffice(term, n)
	n.stepMaster(master.TookOffice{Term: term, Settings: w.queue.settings, Leases: leases, Revoked: revoked})
	for _, other := range w.live() {
		if other != n {
			w.after(w.latency, func() { other.tellOffice(term, n) })
		}
	}
}

func (n *node) tellOffice(term task.Term, chief *node) {
	if !n.alive || term.Less(n.w.term) {
		return
	}
	if n != chief && n.master.InOffice() {
		n.stepMaster(master.LeftOffice{})
	}
	n.stepWorker(message.MasterInOffice{Term: term, Peer: chief.peer})
}

// kill ends a pilot at once. The master, if it lives, hears of it soon.
func (w *world) kill(n *node) {
	w.note("%s is killed", n.id)
	n.alive = false
	for id, p := range n.payloads {
		w.stopped(n, id)
		p.over = true
	}
	n.payloads = make(map[task.AttemptID]*payload)
	n.cache = make(map[task.FileKey]bool)
	if q := w.queue; q.parked != nil && q.parked.from == n {
		q.parked = nil
	}
	if office := w.office; office != n {
		w.after(20*time.Millisecond, func() { w.down(office, n) })
	}
}

func (w *world) down(office, n *node) {
	if office.alive && office.master.InOffice() {
		office.stepMaster(master.PilotDown{Pilot: n.id, Peer: n.peer, Reason: "its connection broke"})
	}
}

// suspect has the master believe that a live pilot is dead, and meet it again.
func (w *world) suspect(n *node, back time.Duration) {
	w.note("%s is held for dead", n.id)
	w.excuse(n)
	office := w.office
	w.cut(office, n, back)
	w.down(office, n)
}

// excuse lets what a pilot was given run twice: its master may think that it
// does not run.
func (w *world) excuse(n *node) {
	for id := range n.given {
		w.excused[id] = true
	}
}
