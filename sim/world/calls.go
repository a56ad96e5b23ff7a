package world

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/office"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
)

// The calls of masters, and of pilots that are their own: links and time are virtual, what
// parks, wakes and matches is the product's.

const signsTime = time.Second // between two notes of signs of life

// call is a Sync or a Pull that has come to the queue.
type call struct {
	*serving.Call
	from      *node
	asked     time.Time // by the pilot's clock
	number    uint64
	pilot     task.PilotID
	site      task.Site
	pull      bool
	look      func() (reply task.PullReply, office bool, err error)
	reply     task.PullReply
	over      bool // it was answered, or nobody answers it
	lostReply bool
	waits     int
}

// serveCalls begins as a new process does, which has no calls.
func (q *queue) serveCalls() {
	q.desk, q.calling = serving.NewDesk(serving.DefaultHolds), nil
	q.matching = serving.NewMatching(serving.Turns{
		Rules: q.rules, Clock: q.clock,
		Update: func(_ context.Context, change func(*taskqueue.Turn) error) error { return q.update(change) },
		View: func(_ context.Context, read func(*taskqueue.Turn) error) error {
			q.view(read)
			return nil
		},
	}, q.desk, func() { q.after(0, q.callIn) })
}

func (q *queue) moment() serving.Moment {
	return serving.Moment{Service: q.clock(), Machine: q.net.Now()}
}

// callIn wakes pilots for tasks that have come up.
func (q *queue) callIn() {
	if !q.away {
		q.noted(q.matching.CallIn(context.Background()))
	}
}

// lookAfter does for sites without a master in office what one would do.
func (q *queue) lookAfter() {
	if q.works() {
		q.noted(q.matching.LookAfter(context.Background()))
	}
}

// noteSigns keeps the signs of life of pilots.
func (q *queue) noteSigns() {
	if !q.works() {
		return
	}
	now := q.clock()
	q.must(func(t *taskqueue.Turn) error {
		for _, s := range q.sites {
			if err := q.matching.SaveSigns(t, s.name, now); err != nil {
				return err
			}
		}
		return nil
	})
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
	q.carry(&call{from: from, asked: from.clock(), number: a.N, pilot: from.id, site: a.Pull.Site, pull: true}, proto.Size(request), func(c *call, wake func()) error {
		told, err := taskpb.FromPull(overWire(q, request, &pb.PullRequest{}), from.id)
		if err != nil {
			return err
		}
		c.Call = q.desk.Pull(q.moment(), &told, &from.connection, wake)
		capacity := q.matching.Hear(c.Call, &told)
		c.look = func() (task.PullReply, bool, error) {
			return q.matching.Pull(context.Background(), c.Call, &told, capacity)
		}
		return nil
	})
}

// sync carries a master's call to the queue.
func (q *queue) sync(from *node, a master.CallSync) {
	request := taskpb.Sync(a.Sync)
	q.carry(&call{from: from, asked: from.clock(), number: a.N, pilot: from.id, site: a.Sync.Site}, proto.Size(request), func(c *call, wake func()) error {
		told, err := taskpb.FromSync(overWire(q, request, &pb.SyncRequest{}), from.id)
		if err != nil {
			return err
		}
		c.Call = q.desk.Sync(q.moment(), &told, &from.connection, wake)
		c.look = func() (reply task.PullReply, office bool, err error) {
			err = q.update(func(t *taskqueue.Turn) (err error) {
				reply.SyncReply, err = q.rules.Sync(t, told)
				return err
			})
			return reply, true, err
		}
		return nil
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
func (q *queue) carry(c *call, size int, arrive func(c *call, wake func()) error) {
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
		if err := arrive(c, func() { q.after(0, func() { q.attend(c) }) }); err != nil {
			q.refuse(c, err)
			return
		}
		q.calling = append(q.calling, c)
		q.attend(c)
	})
}

// carryLate carries a call out when its caller has given up, as a queue does that stood
// still with the call in its hands. Newer calls come before it.
func (q *queue) carryLate(c *call, arrive func(c *call, wake func()) error) {
	q.fail(c)
	q.after(callFailure+time.Duration(q.random.Int64N(int64(time.Minute))), func() {
		if q.away {
			return
		}
		err := arrive(c, func() {})
		if err == nil {
			_, _, err = c.look()
			q.leave(c)
		}
		q.note("a call of %s that it gave up long ago is carried out: %v", c.pilot, err)
	})
}

// attend does with a call what the desk says, as the product's server does.
func (q *queue) attend(c *call) {
	for !c.over {
		do, wait := q.desk.Next(q.moment(), c.Call)
		switch do {
		case serving.Answer:
			q.leave(c)
			q.answer(c, master.SyncAnswered{})
		case serving.Look:
			reply, office, err := c.look()
			if q.doubles > 0 && !q.away {
				q.doubles--
				q.note("the call of %s is carried out twice", c.pilot)
				reply, office, err = c.look()
			}
			switch {
			case c.over: // the power has failed
			case err != nil:
				q.leave(c)
				q.refuse(c, err)
			default:
				c.reply = reply
				q.desk.Looked(q.moment(), c.Call, &reply, office)
			}
		case serving.Wait:
			c.waits++
			waits := c.waits
			q.after(wait, func() {
				if c.waits == waits {
					q.attend(c)
				}
			})
			return
		}
	}
}

// leave ends a call.
func (q *queue) leave(c *call) (newest bool) {
	c.over = true
	q.calling = slices.DeleteFunc(q.calling, func(other *call) bool { return other == c })
	return q.desk.Leave(q.moment(), c.Call)
}

// hangUp notes that a pilot's process is gone: the kernel ends its connections.
func (q *queue) hangUp(n *node) {
	if q.away || n.offline {
		return
	}
	q.desk.HangUp(q.moment(), &n.connection)
	for _, c := range slices.Clone(q.calling) {
		if c.from == n && q.leave(c) && c.pull {
			q.matching.Broken(c.site, c.pilot)
		}
	}
}

// answer brings an answer to the caller.
func (q *queue) answer(c *call, answer master.SyncAnswered) {
	answer.N = c.number
	if answer.Err == "" {
		var decoded task.PullReply
		var err error
		if c.pull {
			decoded, err = taskpb.FromPullReply(overWire(q, taskpb.PullReply(c.reply), &pb.PullResponse{}))
		} else {
			decoded.SyncReply, err = taskpb.FromSyncReply(overWire(q, taskpb.SyncReply(c.reply.SyncReply), &pb.SyncResponse{}))
		}
		if err != nil {
			q.judge.Fatalf("the answer to %s: %v", c.pilot, err)
		}
		answer.Reply, answer.CacheVersion = decoded.SyncReply, decoded.CacheVersion
	}
	q.after(callTime+q.lag, func() {
		if c.lostReply || c.from.deaf || !c.from.reaches() {
			q.note("the answer to %s is lost", c.pilot)
			q.fail(c)
			return
		}
		c.from.takeSettings(c.asked, answer.Reply.Settings)
		c.from.stepMaster(answer)
	})
}

func (q *queue) refuse(c *call, err error) {
	var stale *taskqueue.StaleTermError
	answer := master.SyncAnswered{Err: err.Error(), Stale: errors.As(err, &stale)}
	if !answer.Stale {
		q.note("the queue refuses the call of %s: %v", c.pilot, err)
		c.from.refused(err)
	}
	q.answer(c, answer)
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
	err := q.update(func(t *taskqueue.Turn) (err error) {
		result, err = q.matching.Claim(t, taskqueue.Claim{Site: n.site.name, Pilot: n.id, Expected: c.Expected, Resigned: c.Resigned, Ballot: c.Ballot})
		return err
	})
	if err != nil {
		w.note("%s: the claim fails: %v", n.id, err)
		n.refused(err)
		return dht.ClaimAnswer{}
	}
	if result.Granted {
		q.desk.WakeSite(n.site.name)
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
		delivered := worker.DeliveredToQueue{}
		err := q.update(func(t *taskqueue.Turn) (err error) {
			delivered.Acks, err = q.rules.Deliver(t, taskqueue.Delivery{
				Site: n.site.name, Pilot: n.id, Outcomes: slices.Clone(d.Outcomes), Stored: slices.Clone(d.Stored),
			})
			return err
		})
		if err != nil {
			q.note("the queue refuses the delivery of %s: %v", n.id, err)
			n.refused(err)
			return
		}
		if lostReply || n.deaf {
			q.note("the answer to the delivery of %s is lost", n.id)
			return
		}
		for _, s := range d.Stored {
			delivered.Stored = append(delivered.Stored, s.Output())
		}
		q.after(callTime, func() { n.stepWorker(delivered) })
	})
}
