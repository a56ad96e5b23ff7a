package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/office"
	"github.com/pilotage-grid/pilotage/pilot/wire"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/sim/staging"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
)

// node is a worker node with its pilot: the real roles, overlay, cache index, planner and
// grants.
type node struct {
	*timeline
	world      *world
	queue      *queue
	site       *site
	peer       task.PeerID
	id         task.PilotID
	host       string
	slots      int
	alive      bool
	member     *memnet.Node
	connection serving.Connection // to the queue
	calls      rate
	unread     int // attempts whose inputs it could not read
	trials     int // that it has begun
	claimed    *taskqueue.ClaimResult
	plight
	cores
	things
	ending
}

// plight is what is wrong with a node.
type plight struct {
	offline  bool // it does not reach the queue
	deaf     bool // its calls reach the queue, and no answer comes back
	misreads bool // whatever storage elements give it is damaged on the way
	full     bool // its disk takes no file
	shut     bool // storage elements do not answer it
	alone    bool // no other pilot gives it a file
	paused   bool // as SIGSTOP does
	backlog  []func()
	time     drifting
}

// cores are the product's, with the moments for which each is armed.
type cores struct {
	worker                             *worker.Worker
	master                             *master.Master
	office                             *office.Office
	wakeWorker, wakeMaster, wakeOffice time.Time
}

// things are what a pilot has.
type things struct {
	files     *staging.Files
	chances   *rand.Rand    // of what it does with files
	desk      *staging.Desk // for files of which this pilot is the home
	homes     *cache.Homes  // of other files
	homesWake sim.Alarm
	payloads  map[task.AttemptID]*payload
	logs      map[task.AttemptID]bool   // that are kept here
	searches  uint64                    // of the overlay, begun so far
	searched  map[uint64][]task.FileKey // what those are for that go on
	uploads   int                       // that have not ended: what is tried again counts
}

// ending is how far a pilot has come that leaves.
type ending struct {
	drained  bool
	leaving  bool
	settling time.Duration // that it has taken for its last words to the queue
}

type payload struct {
	assignment message.Assignment
	started    time.Time
	over       bool
}

// running lists the tasks whose payloads run here, in order.
func (n *node) running() (ids []task.ID) {
	for _, p := range n.payloads {
		if !p.over {
			ids = append(ids, p.assignment.Task.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// declaredLife is the lifetime that a pilot declares, unless its batch job says another:
// longer than all that a world lives.
const declaredLife = 24 * time.Hour

// startOne starts a pilot; change may alter its registration. It returns nil if the
// queue does not take it.
func (w *world) startOne(s *site, slots int, change func(*taskqueue.Registration)) *node {
	number := w.keys
	w.keys++
	n := &node{
		timeline: w.timeline, world: w, queue: w.queue, site: s, peer: task.PeerID(fmt.Sprintf("member%05d", number)), slots: slots, alive: true,
		things: things{
			chances: rand.New(rand.NewPCG(w.seed, uint64(number))), payloads: make(map[task.AttemptID]*payload), logs: make(map[task.AttemptID]bool),
			searched: make(map[uint64][]task.FileKey),
		},
	}
	registration := taskqueue.Registration{
		Site: s.name, Peer: n.peer, Overlay: s.speaks, PilotDescription: taskqueue.PilotDescription{
			Slots: slots, Host: fmt.Sprintf("host-%d", number),
			Resources: task.Resources{Cores: slots, Memory: task.Bytes(slots) * 4 * task.GiB, Disk: 100 * task.GiB},
			Addresses: []string{"/memory/" + string(n.peer)}, DataURL: "https://" + string(n.peer) + ":1", Ends: w.net.Now().Add(declaredLife),
		},
	}
	if change != nil {
		change(&registration)
	}
	n.host = registration.Host
	registered, described, err := w.queue.Register(registration)
	if w.queue.noted(err); err != nil {
		return nil
	}
	if registered.Wait != "" {
		w.note("a pilot cannot join %s yet: %s", s.name, registered.Wait)
		return nil
	}
	n.id = registered.Pilot
	self := cache.Holder{Peer: n.peer, DataURL: registration.DataURL}
	n.files, n.desk, n.homes = newFiles(n, self), newDesk(n), cache.NewHomes(cache.HomesConfig{}, self, n.homeOf)
	evaluator := matcher.NewEvaluator(described, n.files.Size, w.compiler)
	n.worker, n.master = worker.New(worker.Config{}, described, n.peer, evaluator), master.New(master.Config{}, n.id, w.compiler)
	n.office = office.New(n.peer, registered.Settings)
	w.pilots, w.peers[n.peer] = append(w.pilots, n), n
	n.stepWorker(worker.SiteChanged{Settings: registered.Settings})
	joined := dht.Joined{
		Self: dht.Member{Peer: n.peer, Pilot: n.id, Addresses: registration.Addresses, DataURL: registration.DataURL},
		Term: registered.Term, Master: s.member(registered.Master),
	}
	for _, c := range registered.Contacts {
		joined.Contacts = append(joined.Contacts, s.member(c))
	}
	w.note("%s joins %s on %s", n.id, s.name, n.host)
	if s.speaks > 0 {
		w.net.Speaks[n.peer] = s.speaks
	}
	n.member = w.net.Enter(joined)
	n.after(0, func() { n.stepOffice(office.Began{}) })
	return n
}

// overlayActs takes what the overlay wants of its user; like the product's
// loop it takes one thing after the other.
func (n *node) overlayActs(action dht.Action) {
	switch a := action.(type) {
	case dht.Deliver:
		n.after(0, func() { n.deliver(a) })
	case dht.Inbound:
		n.after(0, func() { n.inbound(a) })
	case dht.Done:
		n.after(0, func() { n.broadcastDone(a) })
	case dht.MasterChanged:
		n.note("%s: master of term %s is %s (provisional %v)", n.id, a.Term, a.Master.Pilot, a.Provisional)
		n.after(0, func() {
			n.stepOffice(office.MasterChanged{Master: office.Incumbent{Term: a.Term, Peer: a.Master.Peer, Provisional: a.Provisional, Passed: a.PassedPilots()}})
		})
	case dht.MemberUp:
		n.after(0, func() {
			n.stepOffice(office.MemberUp{Member: master.PilotUp{Pilot: a.Member.Pilot, Peer: a.Member.Peer}})
		})
	case dht.Located:
		n.after(0, func() { n.located(a) })
	case dht.MemberDown:
		n.note("%s loses %s: %s", n.id, a.Member.Pilot, a.Reason)
		n.after(0, func() {
			n.desk.Tell(cache.PeerGone{Peer: a.Member.Peer})
			n.stepOffice(office.MemberDown{Member: master.PilotDown{Pilot: a.Member.Pilot, Peer: a.Member.Peer, Left: a.Left, Reason: a.Reason}})
		})
	case dht.Left:
		n.after(0, func() {
			n.note("%s has left", n.id)
			n.end()
		})
	}
}

// post tells both roles for whom they work.
func (n *node) post(p office.Posting) {
	p.CarryOut(n.master, n.stepMaster, n.stepWorker, func(took *master.TookOffice) []master.PilotUp {
		took.Settings = n.office.Settings()
		if !took.Own {
			took.Alone = n.member.Overlay.Size() < 2
			if n.claimed != nil && n.claimed.Term == took.Term {
				took.Leases, took.Revoked = n.claimed.Leases, n.claimed.Revoked
				n.claimed = nil
			}
		}
		members := []master.PilotUp{{Pilot: n.id, Peer: n.peer}}
		for _, m := range n.member.Overlay.Members() {
			if m.Peer != n.peer {
				members = append(members, master.PilotUp{Pilot: m.Pilot, Peer: m.Peer})
			}
		}
		return members
	})
}

// deliver hands a broadcast to the worker and its answer to the overlay.
func (n *node) deliver(d dht.Deliver) {
	if !n.alive {
		return
	}
	if n.office.Own() {
		if d.Reply {
			n.net.Do(n.member, dht.Reply{ID: d.ID})
		}
		return
	}
	n.stepWorker(worker.ListBroadcast{ID: worker.BroadcastID(d.ID), From: d.From, List: decode[message.TaskList](n.world, d.Payload)})
}

func (n *node) broadcastDone(d dht.Done) {
	done := master.BroadcastDone{N: d.N, Missed: d.Missed}
	for _, data := range d.Data {
		if len(data) > 0 {
			done.Answers = append(done.Answers, decode[message.Answer](n.world, data))
		}
	}
	n.stepMaster(done)
}

func decode[M message.Message](w *world, data []byte) M {
	said, err := wire.Decode(data)
	if err != nil {
		w.judge.Fatalf("a message cannot be read: %v", err)
	}
	return said.(M)
}

// Frames tell what bytes between pilots are.
const (
	frameRole byte = iota + 1
	frameDesk      // to the home of a file
	frameHome      // from the home of a file
	frameSettings
)

func (n *node) send(to task.PeerID, kind byte, data []byte) {
	if to == n.peer {
		n.after(0, func() { n.inbound(dht.Inbound{From: to, Data: append([]byte{kind}, data...)}) })
		return
	}
	n.net.Do(n.member, dht.SendApp{To: to, Data: append([]byte{kind}, data...)})
}

func (n *node) inbound(in dht.Inbound) {
	if !n.alive {
		return
	}
	switch data := in.Data[1:]; in.Data[0] {
	case frameRole:
		n.stepOffice(office.Message{From: in.From, Said: decode[message.Message](n.world, data)})
	case frameDesk:
		n.homeAsked(in.From, data)
	case frameHome:
		n.homeSaid(in.From, data)
	case frameSettings:
		n.stepOffice(office.PilotSaid{From: in.From, Settings: settingsOf(n.world, data)})
	}
}

// aside passes a message from one role of this pilot to the other, through its
// bytes.
func (n *node) aside(said message.Message) {
	data := wire.Encode(said)
	n.after(0, func() { n.stepOffice(office.Message{From: n.peer, Said: decode[message.Message](n.world, data)}) })
}

func (n *node) tell(t message.Tell) {
	if t.To == n.peer {
		n.aside(t.Message)
		return
	}
	n.send(t.To, frameRole, wire.Encode(t.Message))
}

// stepMaster drives the master's core and carries its actions out.
func (n *node) stepMaster(event message.Event) {
	if !n.alive {
		return
	}
	if n.paused {
		n.backlog = append(n.backlog, func() { n.stepMaster(event) })
		return
	}
	for _, action := range n.world.step(n, event) {
		switch a := action.(type) {
		case message.Tell:
			n.tell(a)
		case master.CallPull:
			n.callPull(a)
		case master.CastList:
			if n.office.Own() {
				event := worker.ListBroadcast{ID: worker.BroadcastID{Root: n.peer, N: a.N}, From: n.peer, List: a.List}
				n.after(0, func() { n.stepWorker(event) })
				continue
			}
			n.net.Do(n.member, dht.Broadcast{N: a.N, Payload: wire.Encode(a.List), Reply: true})
		case master.CallSync:
			n.queue.link.sync(n, a)
		case master.Fenced:
			n.note("%s is fenced off in term %s", n.id, a.Term)
			n.net.Do(n.member, dht.Fenced{Term: a.Term})
		case master.DenyPeers:
			n.net.Do(n.member, dht.Denied{Peers: a.Peers})
		}
	}
	n.arm(n.master.Deadline(), &n.wakeMaster, func() { n.stepMaster(message.Tick{}) })
}

// stepWorker drives the worker's core and carries its actions out.
func (n *node) stepWorker(event message.Event) {
	if !n.alive {
		return
	}
	if n.paused {
		n.backlog = append(n.backlog, func() { n.stepWorker(event) })
		return
	}
	for _, action := range n.worker.Step(n.clock(), event) {
		switch a := action.(type) {
		case message.Tell:
			n.tell(a)
		case worker.AnswerBroadcast:
			if n.office.Own() {
				answer := decode[message.Answer](n.world, wire.Encode(a.Answer))
				n.after(0, func() { n.stepMaster(master.BroadcastDone{N: a.ID.N, Answers: []message.Answer{answer}}) })
				continue
			}
			n.net.Do(n.member, dht.Reply{ID: dht.CastID(a.ID), Data: wire.Encode(a.Answer)})
		case worker.StageIn:
			n.after(stageTime, func() { n.stageIn(a) })
		case worker.StartPayload:
			n.startPayload(a)
		case worker.KillPayload:
			n.after(time.Millisecond, func() {
				n.payloadEnds(a.Attempt, task.Outcome{Failure: task.PayloadFailed, Signal: "SIGKILL", ExitCode: -1, Reason: "killed"})
			})
		case worker.Publish:
			n.after(publishTime, func() { n.publish(a) })
		case worker.Upload:
			n.uploads++
			n.after(0, func() { n.upload(a.Output, 0) })
		case worker.Keep:
			n.after(stageTime, func() { n.keep(a.File) })
		case worker.CopyIn:
			n.after(0, func() { n.files.CopyIn(a.File, func(done worker.CopiedIn) { n.stepWorker(done) }) })
		case worker.DropCopy:
			n.files.DropCopy(a.File)
		case worker.LetGo:
			n.files.LetGo(a.Output.ID())
		case worker.Discard:
			delete(n.payloads, a.Attempt)
			n.files.Discard(a.Attempt)
		case worker.DropLogs:
			delete(n.logs, a.Attempt)
		case worker.DeliverToQueue:
			n.queue.link.deliver(n, a)
		case worker.Drained:
			n.drained = true
			n.after(0, n.farewell)
		}
	}
	n.arm(n.worker.Deadline(), &n.wakeWorker, func() { n.stepWorker(message.Tick{}) })
}

// arm has a core woken at its deadline.
func (n *node) arm(at time.Time, armed *time.Time, wake func()) {
	if at.IsZero() || at.Equal(*armed) {
		return
	}
	*armed = at
	n.after(n.time.until(n.net.Now(), at), func() {
		if n.alive && armed.Equal(at) {
			*armed = time.Time{}
			wake()
		}
	})
}
