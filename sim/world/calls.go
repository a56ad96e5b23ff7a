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
	named     task.Term // the term of its overlay, in a Pull
	lostReply bool
}

// link is the way of calls to the queue, and what happens to them on it.
type link struct {
	*timeline
	queue     *queue
	calls     int // that arrived: Syncs, claims and deliveries
	callBytes int // of their requests
	loseReply int // so many of the next calls are carried out, and their answers are lost
	loseCall  int // so many of the next calls are lost on their way
	delayCall int // so many of the next Syncs and Pulls are carried out after their callers gave up
	doubles   int // so many of the next Syncs and Pulls are carried out twice
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
	n.queue.link.pull(n, a)
}

// pull carries the call to the queue of a pilot that is its own master.
func (l *link) pull(from *node, a master.CallPull) {
	request := taskpb.Pull(a.Pull)
	l.carry(&call{from: from, number: a.N, pull: true, named: a.Pull.Term}, proto.Size(request), func(c *call) error {
		told, err := taskpb.FromPull(overWire(l.judge, request, &pb.PullRequest{}), from.id)
		if err == nil {
			l.queue.Pull(&c.Call, &told)
		}
		return err
	})
}

// sync carries a master's call to the queue.
func (l *link) sync(from *node, a master.CallSync) {
	request := taskpb.Sync(a.Sync)
	l.carry(&call{from: from, number: a.N}, proto.Size(request), func(c *call) error {
		told, err := taskpb.FromSync(overWire(l.judge, request, &pb.SyncRequest{}), from.id)
		if err == nil {
			l.queue.Sync(&c.Call, &told)
		}
		return err
	})
}

// overWire sends a message through its form on the wire.
func overWire[M proto.Message](judge Judge, sent proto.Message, received M) M {
	data, err := proto.Marshal(sent)
	if err == nil {
		err = proto.Unmarshal(data, received)
	}
	if err != nil {
		judge.Fatalf("%T: %v", sent, err)
	}
	return received
}

// losesNext tells whether the next call is lost, or its answer.
func (l *link) losesNext() (call, reply bool) {
	call, reply = l.loseCall > 0, l.loseReply > 0
	if call {
		l.loseCall--
		return true, false
	}
	if reply {
		l.loseReply--
	}
	return false, reply
}

// carry brings a call to the queue, which parks it while there is no news.
func (l *link) carry(c *call, size int, arrive func(*call) error) {
	c.By, c.asked = &c.from.connection, c.from.clock()
	c.Answer = func(reply *task.PullReply, err error) { l.answer(c, reply, err) }
	c.Lost = func() { l.fail(c) }
	lost, lostReply := l.losesNext()
	c.lostReply = lostReply
	if l.delayCall > 0 {
		l.delayCall--
		l.carryLate(c, arrive)
		return
	}
	l.after(callTime, func() {
		if !c.from.alive {
			return
		}
		if !c.from.reaches() || lost {
			l.fail(c)
			return
		}
		l.calls++
		l.callBytes += size
		c.from.calls.count(l.now(), c.from)
		if err := arrive(c); err != nil {
			l.answer(c, nil, err)
			return
		}
		l.mayDouble(c)
		l.queue.Serve(&c.Call)
	})
}

// mayDouble has looks at a call be carried out twice, if that is to happen.
func (l *link) mayDouble(c *call) {
	look := c.Look
	c.Look = func() (reply task.PullReply, office bool, err error) {
		reply, office, err = look()
		if l.doubles > 0 && !l.queue.away {
			l.doubles--
			l.note("the call of %s is carried out twice", c.from.id)
			reply, office, err = look()
		}
		return reply, office, err
	}
}

// carryLate carries a call out when its caller has given up, as a queue does that stood
// still with the call in its hands. Newer calls come before it.
func (l *link) carryLate(c *call, arrive func(*call) error) {
	l.fail(c)
	l.after(callFailure+time.Duration(l.random.Int64N(int64(time.Minute))), func() {
		if l.queue.away {
			return
		}
		err := arrive(c)
		if err == nil {
			err = l.queue.ServeLate(&c.Call)
		}
		l.note("a call of %s that it gave up long ago is carried out: %v", c.from.id, err)
	})
}

// hangUp notes that a pilot's process is gone: the kernel ends its connections.
func (l *link) hangUp(n *node) {
	if !l.queue.away && !n.offline {
		l.queue.HangUp(&n.connection)
	}
}

// answer brings an answer to the caller.
func (l *link) answer(c *call, reply *task.PullReply, err error) {
	answer := master.SyncAnswered{N: c.number}
	if err != nil {
		var stale *taskqueue.StaleTermError
		answer.Err, answer.Stale = err.Error(), errors.As(err, &stale)
		if !answer.Stale {
			l.note("the queue refuses the call of %s: %v", c.from.id, err)
			c.from.refused(err)
		}
	} else {
		var decoded task.PullReply
		if c.pull {
			decoded, err = taskpb.FromPullReply(overWire(l.judge, taskpb.PullReply(*reply), &pb.PullResponse{}))
		} else {
			decoded.SyncReply, err = taskpb.FromSyncReply(overWire(l.judge, taskpb.SyncReply(reply.SyncReply), &pb.SyncResponse{}))
		}
		if err != nil {
			l.judge.Fatalf("the answer to %s: %v", c.from.id, err)
		}
		answer.Reply, answer.CacheVersion, answer.Deposed, answer.Named = decoded.SyncReply, decoded.CacheVersion, decoded.Deposed, c.named
	}
	l.after(callTime+l.queue.lag, func() {
		if c.lostReply || c.from.deaf || !c.from.reaches() {
			l.note("the answer to %s is lost", c.from.id)
			l.fail(c)
			return
		}
		c.from.takeSettings(c.asked, answer.Reply.Settings)
		c.from.stepMaster(answer)
	})
}

// fail ends a call that nobody answers.
func (l *link) fail(c *call) {
	l.after(callFailure, func() {
		c.from.stepMaster(master.SyncAnswered{N: c.number, Err: "the queue does not answer"})
	})
}

// claim answers a pilot that wants the office.
func (w *world) claim(_ time.Time, member *memnet.Node, c dht.Claim) dht.ClaimAnswer {
	n, q := w.peers[member.Member.Peer], w.queue
	lost, lostReply := q.link.losesNext()
	if !n.reaches() || lost {
		return dht.ClaimAnswer{}
	}
	q.link.calls++
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
func (l *link) deliver(n *node, d worker.DeliverToQueue) {
	lost, lostReply := l.losesNext()
	l.after(callTime, func() {
		if !n.alive || !n.reaches() || lost {
			return
		}
		l.calls++
		n.calls.count(l.now(), n)
		request := &pb.DeliverOutcomesRequest{Site: string(n.site.name), Outcomes: taskpb.Outcomes(d.Outcomes), Stored: taskpb.StoredList(d.Stored)}
		l.callBytes += proto.Size(request)
		delivered, err := l.queue.Deliver(n.site.name, n.id, &d)
		if err != nil {
			l.note("the queue refuses the delivery of %s: %v", n.id, err)
			n.refused(err)
			return
		}
		if lostReply || n.deaf {
			l.note("the answer to the delivery of %s is lost", n.id)
			return
		}
		l.after(callTime, func() { n.stepWorker(delivered) })
	})
}
