package world

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/office"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/sim/server"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// The calls of masters, and of pilots that are their own: links and time are virtual, what
// parks, wakes and matches is the product's.

const signsTime = time.Second // between two notes of signs of life

// call is a Sync or a Pull on its way to the queue and back.
type call struct {
	server.Call
	from      *node
	asked     time.Time // by the pilot's clock
	number    uint64
	pull      bool
	lostReply bool
}

func (q *queue) Stir() { q.after(0, q.callIn) }

// callIn wakes pilots for tasks that have come up.
func (q *queue) callIn() {
	if !q.away {
		q.noted(q.Matching.CallIn(context.Background()))
	}
}

// lookAfter does for sites without a master in office what one would do.
func (q *queue) lookAfter() {
	if q.works() {
		q.noted(q.Matching.LookAfter(context.Background()))
	}
}

// noteSigns keeps the signs of life of pilots.
func (q *queue) noteSigns() {
	if !q.works() {
		return
	}
	q.noted(q.SaveSigns())
}

// noted takes errors of the disk; the product's server logs them and tries again.
func (q *queue) noted(err error) {
	if err != nil && !ofTheDisk(err) {
		q.judge.Fatalf("the queue: %v", err)
	}
}

// callPull asks the queue for this pilot alone.
func (n *node) callPull(a master.CallPull) {
	a.Pull.Site = n.site.name
	a.Pull.Self.Arch, a.Pull.Self.OS, a.Pull.Self.Lifetime = "amd64", "linux", 30*24*time.Hour
	if chief, term := n.member.Overlay.Master(); chief.Peer == n.peer {
		a.Pull.Term = term
	}
	n.queue.pull(n, a)
}

// pull carries the call to the queue of a pilot that is its own master.
func (q *queue) pull(from *node, a master.CallPull) {
	request := taskpb.Pull(a.Pull)
	q.carry(&call{from: from, number: a.N, pull: true}, proto.Size(request), func(c *call) error {
		told, err := taskpb.FromPull(overWire(q, request, &pb.PullRequest{}), from.id)
		if err == nil {
			q.Pull(&c.Call, &told)
		}
		return err
	})
}

// sync carries a master's call to the queue.
func (q *queue) sync(from *node, a master.CallSync) {
	request := taskpb.Sync(a.Sync)
	q.carry(&call{from: from, number: a.N}, proto.Size(request), func(c *call) error {
		told, err := taskpb.FromSync(overWire(q, request, &pb.SyncRequest{}), from.id)
		if err == nil {
			q.Sync(&c.Call, &told)
		}
		return err
	})
}

// overWire sends a message through its form on the wire.
func overWire[M proto.Message](q *queue, sent proto.Message, received M) M {
	data, err := proto.Marshal(sent)
	if err == nil {
		err = proto.Unmarshal(data, received)
	}
	if err != nil {
		q.judge.Fatalf("%T: %v", sent, err)
	}
	return received
}

// losesNext tells whether the next call is lost, or its answer.
func (q *queue) losesNext() (call, reply bool) {
	call, reply = q.loseCall > 0, q.loseReply > 0
	if call {
		q.loseCall--
		return true, false
	}
	if reply {
		q.loseReply--
	}
	return false, reply
}

// carry brings a call to the queue, which parks it while there is no news.
func (q *queue) carry(c *call, size int, arrive func(*call) error) {
	c.By, c.asked = &c.from.connection, c.from.clock()
	c.Answer = func(reply *task.PullReply, err error) { q.answer(c, reply, err) }
	c.Lost = func() { q.fail(c) }
	lost, lostReply := q.losesNext()
	c.lostReply = lostReply
	if q.delayCall > 0 {
		q.delayCall--
		q.carryLate(c, arrive)
		return
	}
	q.after(callTime, func() {
		if !c.from.alive {
			return
		}
		if !c.from.reaches() || lost {
			q.fail(c)
			return
		}
		q.calls++
		q.callBytes += size
		c.from.calls.count(q.now(), c.from)
		if err := arrive(c); err != nil {
			q.answer(c, nil, err)
			return
		}
		q.mayDouble(c)
		q.Serve(&c.Call)
	})
}

// mayDouble has looks at a call be carried out twice, if that is to happen.
func (q *queue) mayDouble(c *call) {
	look := c.Look
	c.Look = func() (reply task.PullReply, office bool, err error) {
		reply, office, err = look()
		if q.doubles > 0 && !q.away {
			q.doubles--
			q.note("the call of %s is carried out twice", c.from.id)
			reply, office, err = look()
		}
		return reply, office, err
	}
}

// carryLate carries a call out when its caller has given up, as a queue does that stood
// still with the call in its hands. Newer calls come before it.
func (q *queue) carryLate(c *call, arrive func(*call) error) {
	q.fail(c)
	q.after(callFailure+time.Duration(q.random.Int64N(int64(time.Minute))), func() {
		if q.away {
			return
		}
		err := arrive(c)
		if err == nil {
			err = q.ServeLate(&c.Call)
		}
		q.note("a call of %s that it gave up long ago is carried out: %v", c.from.id, err)
	})
}

// hangUp notes that a pilot's process is gone: the kernel ends its connections.
func (q *queue) hangUp(n *node) {
	if !q.away && !n.offline {
		q.HangUp(&n.connection)
	}
}

// answer brings an answer to the caller.
func (q *queue) answer(c *call, reply *task.PullReply, err error) {
	answer := master.SyncAnswered{N: c.number}
	if err != nil {
		var stale *taskqueue.StaleTermError
		answer.Err, answer.Stale = err.Error(), errors.As(err, &stale)
		if !answer.Stale {
			q.note("the queue refuses the call of %s: %v", c.from.id, err)
			c.from.refused(err)
		}
	} else {
		var decoded task.PullReply
		if c.pull {
			decoded, err = taskpb.FromPullReply(overWire(q, taskpb.PullReply(*reply), &pb.PullResponse{}))
		} else {
			decoded.SyncReply, err = taskpb.FromSyncReply(overWire(q, taskpb.SyncReply(reply.SyncReply), &pb.SyncResponse{}))
		}
		if err != nil {
			q.judge.Fatalf("the answer to %s: %v", c.from.id, err)
		}
		answer.Reply, answer.CacheVersion, answer.Deposed = decoded.SyncReply, decoded.CacheVersion, decoded.Deposed
	}
	q.after(callTime+q.lag, func() {
		if c.lostReply || c.from.deaf || !c.from.reaches() {
			q.note("the answer to %s is lost", c.from.id)
			q.fail(c)
			return
		}
		c.from.takeSettings(c.asked, answer.Reply.Settings)
		c.from.stepMaster(answer)
	})
}

// fail ends a call that nobody answers.
func (q *queue) fail(c *call) {
	q.after(callFailure, func() {
		c.from.stepMaster(master.SyncAnswered{N: c.number, Err: "the queue does not answer"})
	})
}

// claim answers a pilot that wants the office.
func (w *world) claim(_ time.Time, member *memnet.Node, c dht.Claim) dht.ClaimAnswer {
	n, q := w.peers[member.Member.Peer], w.queue
	lost, lostReply := q.losesNext()
	if !n.reaches() || lost {
		return dht.ClaimAnswer{}
	}
	q.calls++
	var result taskqueue.ClaimResult
	err := q.Update(func(t *taskqueue.Turn) (err error) {
		result, err = q.Matching.Claim(t, taskqueue.Claim{Site: n.site.name, Pilot: n.id, Expected: c.Expected, Signed: true, Resigned: c.Resigned, Ballot: c.Ballot})
		return err
	})
	if err != nil {
		w.note("%s: the claim fails: %v", n.id, err)
		n.refused(err)
		return dht.ClaimAnswer{}
	}
	if result.Granted {
		q.Desk.WakeSite(n.site.name)
	}
	if lostReply || n.deaf {
		w.note("%s does not hear the answer to its claim: granted %v", n.id, result.Granted)
		return dht.ClaimAnswer{}
	}
	asked := n.clock()
	w.after(callTime, func() { n.takeSettings(asked, result.Settings) })
	if result.Granted {
		n.claimed = &result
	} else {
		n.stepOffice(office.ClaimRefused{Why: result.Why})
	}
	answer := dht.ClaimAnswer{Reached: true, Granted: result.Granted, Term: result.Term, Master: n.site.member(result.Master)}
	for _, c := range result.Pilots {
		answer.Members = append(answer.Members, n.site.member(c))
	}
	return answer
}

func (s *site) member(c taskqueue.Contact) dht.Member {
	return dht.Member{Peer: c.Peer, Pilot: c.Pilot, Addresses: c.Addresses, DataURL: c.DataURL}
}

// deliver takes outcomes of a pilot without a master.
func (q *queue) deliver(n *node, d worker.DeliverToQueue) {
	lost, lostReply := q.losesNext()
	q.after(callTime, func() {
		if !n.alive || !n.reaches() || lost {
			return
		}
		q.calls++
		n.calls.count(q.now(), n)
		request := &pb.DeliverOutcomesRequest{Site: string(n.site.name), Outcomes: taskpb.Outcomes(d.Outcomes), Stored: taskpb.StoredList(d.Stored)}
		q.callBytes += proto.Size(request)
		delivered, err := q.Deliver(n.site.name, n.id, &d)
		if err != nil {
			q.note("the queue refuses the delivery of %s: %v", n.id, err)
			n.refused(err)
			return
		}
		if lostReply || n.deaf {
			q.note("the answer to the delivery of %s is lost", n.id)
			return
		}
		q.after(callTime, func() { n.stepWorker(delivered) })
	})
}
