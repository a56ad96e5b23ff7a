package grid

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/sim/staging"
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
	files      *staging.Files
	up         sim.LinkID
	down       sim.LinkID

	workerWakes, masterWakes sim.Alarm
	attempts                 map[task.AttemptID]*attempt
	slots                    []bool // in use, for the Gantt chart
	computing                time.Duration
}

// attempt is an attempt in a node's hands.
type attempt struct {
	since time.Duration // of the stage it is in
	slot  int
	end   *sim.Event // of the payload
}

func newNode(s *site, described Node, index int, load sim.Load) *node {
	n := &node{
		world: s.world, Node: described, site: s, index: index, peer: task.PeerID(fmt.Sprintf("peer%06d", index)), alive: true, load: load,
		attempts: make(map[task.AttemptID]*attempt), slots: make([]bool, described.Slots),
		up: s.network.Link(described.Bandwidth), down: s.network.Link(described.Bandwidth),
	}
	var err error
	if n.files, err = newFiles(n); err != nil {
		s.fail("%w", err)
	}
	return n
}

// join registers the pilot; the first of a site is master.
func (n *node) join() error {
	n.queue.requests++
	registered, self, err := n.queue.Register(taskqueue.Registration{
		Site: n.site.Name, Peer: n.peer, PilotDescription: taskqueue.PilotDescription{
			Slots: n.Slots, Resources: task.Resources{Cores: n.Cores, Memory: n.Memory, Disk: task.TiB}, Host: string(n.peer), Features: n.Features,
			Addresses: []string{"/memory/" + string(n.peer)}, Ends: n.Now().Add(10 * 365 * 24 * time.Hour),
		},
	})
	if err != nil {
		return err
	}
	n.id = self.ID
	evaluator := matcher.NewEvaluator(self, n.files.Size, n.compiler)
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
	n.files.Close()
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

// stepWorker drives the worker's core and carries its actions out.
func (n *node) stepWorker(event message.Event) {
	if !n.alive {
		return
	}
	for _, action := range n.worker.Step(n.Now(), event) {
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
			n.files.Upload(a.Output, n.stepWorker)
		case worker.CopyIn:
			n.copyIn(a.File)
		case worker.DropCopy:
			n.files.DropCopy(a.File)
		case worker.LetGo:
			n.files.LetGo(a.Output.ID())
		case worker.Discard:
			n.discard(a.Attempt)
		case worker.DeliverToQueue:
			n.queue.deliver(n, a)
		}
	}
	n.workerWakes.Set(n.world, n.worker.Deadline(), func() { n.stepWorker(message.Tick{}) })
}

// stepMaster drives the master's core and carries its actions out.
func (n *node) stepMaster(event message.Event) {
	if !n.alive {
		return
	}
	for _, action := range n.master.Step(n.Now(), event) {
		switch a := action.(type) {
		case message.Tell:
			n.send(a)
		case master.CastList:
			n.site.cast(n, a)
		case master.CallSync:
			n.queue.call(n, a)
		}
	}
	n.masterWakes.Set(n.world, n.master.Deadline(), func() { n.stepMaster(message.Tick{}) })
}
