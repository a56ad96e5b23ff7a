package grid

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
)

// node is a worker node with its pilot.
type node struct {
	*world
	Node
	site       *site
	index      int // over all sites
	peer       task.PeerID
	id         task.PilotID
	connection serving.Connection // to the queue
	alive      bool
	load       sim.Load
	worker     *worker.Worker
	master     *master.Master
	fetcher    *fetcher
	cached     *cache.Index
	up         sim.LinkID
	down       sim.LinkID

	workerWakes, masterWakes wakeup
	attempts                 map[task.AttemptID]*attempt
	slots                    []bool // in use, for the Gantt chart
	unstored                 []made
	computing                time.Duration
}

// wakeup is when a core wants a tick.
type wakeup struct {
	at    time.Time
	event *sim.Event
}

// attempt is an attempt in a node's hands.
type attempt struct {
	pinned  []task.FileKey
	missing int // inputs that are being fetched
	err     *cache.FetchError
	other   error
	reads   []task.Read
	since   time.Duration // of the stage it is in
	slot    int
	end     *sim.Event // of the payload
	gone    bool
}

// made is an output that no storage element has.
type made struct {
	attempt task.AttemptID
	output  task.Produced
}

func newNode(s *site, described Node, index int, load sim.Load) *node {
	n := &node{
		world: s.world, Node: described, site: s, index: index, peer: task.PeerID(fmt.Sprintf("peer%06d", index)), alive: true, load: load,
		attempts: make(map[task.AttemptID]*attempt), slots: make([]bool, described.Slots),
		up: s.network.Link(described.Bandwidth), down: s.network.Link(described.Bandwidth),
	}
	cached, err := cache.NewIndex(cache.IndexConfig{Capacity: described.Cache})
	if err != nil {
		s.fail("cache of %s: %w", n.peer, err)
		return n
	}
	n.cached = cached
	n.fetcher = newFetcher(n)
	return n
}

// join registers the pilot; the first of a site is master.
func (n *node) join() error {
	n.queue.requests++
	registered, self, err := n.queue.Register(taskqueue.Registration{
		Site: n.site.Name, Peer: n.peer, PilotDescription: taskqueue.PilotDescription{
			Slots: n.Slots, Resources: task.Resources{Cores: n.Cores, Memory: n.Memory, Disk: task.TiB}, Host: string(n.peer), Features: n.Features,
			Addresses: []string{"/memory/" + string(n.peer)}, Ends: n.now().Add(10 * 365 * 24 * time.Hour),
		},
	})
	if err != nil {
		return err
	}
	n.id = self.ID
	evaluator := matcher.NewEvaluator(self, n.cachedSize, n.compiler)
	n.worker = worker.New(worker.DefaultConfig(), self, n.peer, evaluator)
	n.master = master.New(master.DefaultConfig(), n.id, n.compiler)
	n.stepWorker(worker.SiteChanged{Settings: registered.Settings})
	s := n.site
	if registered.Master.Pilot == n.id {
		s.office, s.term = n, registered.Term
		s.install(master.TookOffice{Term: s.term, Settings: registered.Settings, Alone: true})
	} else {
		s.meet(n)
	}
	if n.FailsAt > 0 {
		n.timeline.After(n.FailsAt-n.timeline.Now(), n.die)
	}
	return nil
}

// die ends a node at once; its site notices later.
func (n *node) die() {
	n.record.Note(n.timeline.Now(), "dies", int64(n.index))
	n.alive = false
	n.queue.HangUp(&n.connection)
	if !slices.ContainsFunc(n.nodes, func(other *node) bool { return other.alive }) && n.failure == nil {
		n.failure = fmt.Errorf("no node is left after %s: %d of %d tasks are not done", n.timeline.Now(), len(n.config.Workload.Tasks)-n.done, len(n.config.Workload.Tasks))
	}
	for _, t := range n.fetcher.transfers {
		n.fetcher.stop(t)
	}
	for _, j := range n.attempts {
		n.timeline.Cancel(j.end)
	}
	s := n.site
	n.timeline.After(n.config.Noticed, func() {
		if s.office == n {
			s.timeline.After(3*time.Second, s.elect)
			return
		}
		s.office.stepMaster(master.PilotDown{Pilot: n.id, Peer: n.peer, Reason: "its node failed"})
	})
}

// holds tells whether the cache has a file, by either of its keys.
func (n *node) cachedSize(key task.FileKey) (size task.Bytes, has bool) {
	if size, has = n.cached.Size(key); has {
		return size, true
	}
	return n.cached.Size(n.digests[key])
}

// changed tells the worker of files that came or went, by all their keys.
func (n *node) changed(keys []task.FileKey) {
	every := keys
	for _, key := range keys {
		if name, known := n.digests[key]; known {
			every = append(every, name)
		}
	}
	usage := n.cached.Usage()
	n.stepWorker(worker.CacheChanged{Keys: every, Cache: message.CacheReport{Capacity: usage.Capacity, Used: usage.Used, Evictions: usage.Evictions}})
}

func (n *node) gone(evicted []task.FileKey) {
	if len(evicted) > 0 {
		n.sums.Evictions += len(evicted)
		n.changed(evicted)
	}
}

// stepWorker drives the worker's core and carries its actions out.
func (n *node) stepWorker(event message.Event) {
	if !n.alive {
		return
	}
	for _, action := range n.worker.Step(n.now(), event) {
		switch a := action.(type) {
		case message.Tell:
			n.send(a)
		case worker.AnswerBroadcast:
			n.site.answered(n, a)
		case worker.StageIn:
			n.stageIn(a)
		case worker.StartPayload:
			n.start(a)
		case worker.KillPayload:
			n.kill(a.Attempt)
		case worker.Publish:
			n.publish(a)
		case worker.Upload:
			n.upload()
		case worker.CopyIn:
			n.copyIn(a.File)
		case worker.DropCopy:
			n.dropCopy(a.File)
		case worker.Discard:
			n.discard(a.Attempt)
		case worker.DeliverToQueue:
			n.queue.deliver(n, a)
		}
	}
	n.arm(&n.workerWakes, n.worker.Deadline(), func() { n.stepWorker(message.Tick{}) })
}

// stepMaster drives the master's core and carries its actions out.
func (n *node) stepMaster(event message.Event) {
	if !n.alive {
		return
	}
	for _, action := range n.master.Step(n.now(), event) {
		switch a := action.(type) {
		case message.Tell:
			n.send(a)
		case master.CastList:
			n.site.cast(n, a)
		case master.CallSync:
			n.queue.call(n, a)
		}
	}
	n.arm(&n.masterWakes, n.master.Deadline(), func() { n.stepMaster(message.Tick{}) })
}

// arm has a core woken at its deadline.
func (w *world) arm(armed *wakeup, at time.Time, wake func()) {
	if at.Equal(armed.at) {
		return
	}
	w.timeline.Cancel(armed.event)
	armed.at, armed.event = at, nil
	if at.IsZero() {
		return
	}
	armed.event = w.timeline.After(max(at.Sub(w.now()), 0), func() {
		armed.at = time.Time{}
		wake()
	})
}
