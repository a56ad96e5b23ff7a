package world

import (
	"errors"
	"reflect"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// How the calls of pilots come to the queue, and its answers to them.

// call is a Sync that waits for news.
type call struct {
	from   *node
	number uint64
	serve  func() (answer master.SyncAnswered, news bool, standing any, err error)
}

// claim answers a pilot that wants the office.
func (w *world) claim(_ time.Time, member *memnet.Node, c dht.Claim) dht.ClaimAnswer {
	n, q := w.peers[member.Member.Peer], w.queue
	lost, lostReply := q.losesNext()
	if !n.reaches() || lost {
		return dht.ClaimAnswer{}
	}
	q.calls++
	q.noteSigns()
	var result taskqueue.ClaimResult
	err := q.update(func(t *taskqueue.Turn) (err error) {
		result, err = q.rules.Claim(t, taskqueue.Claim{
			Site: n.site.name, Pilot: n.id, Expected: c.Expected, Resigned: c.Resigned, Ballot: c.Ballot, BrokenOff: q.broken[n.site.name],
		})
		return err
	})
	if err != nil {
		w.note("%s: the claim fails: %v", n.id, err)
		n.refused(err)
		return dht.ClaimAnswer{}
	}
	if lostReply || n.deaf {
		w.note("%s does not hear the answer to its claim: granted %v", n.id, result.Granted)
		return dht.ClaimAnswer{}
	}
	w.after(callTime, func() { n.takeSettings(result.Settings) })
	if result.Granted {
		delete(q.broken, n.site.name)
		n.claimed = &result
	} else {
		n.claimRefused()
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

// sync carries a master's call to the queue.
func (q *queue) sync(from *node, c master.CallSync) {
	request := taskpb.Sync(c.Sync)
	q.carry(from, c.N, proto.Size(request), c.Sync.Hold, bringsNews(&c.Sync), func() (answer master.SyncAnswered, news bool, standing any, err error) {
		told, err := taskpb.FromSync(overWire(q, request, &pb.SyncRequest{}), from.id)
		if err != nil {
			return answer, false, nil, err
		}
		var reply task.SyncReply
		err = q.update(func(t *taskqueue.Turn) (err error) {
			reply, err = q.rules.Sync(t, told)
			return err
		})
		if err != nil {
			return answer, false, nil, err
		}
		delete(q.broken, from.site.name)
		answer.Reply, err = taskpb.FromSyncReply(overWire(q, taskpb.SyncReply(reply), &pb.SyncResponse{}))
		return answer, len(reply.Leases)+len(reply.Acks) > 0, standingOf(reply), err
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

// carry brings a call to the queue and parks it there while there is no news.
func (q *queue) carry(from *node, number uint64, size int, hold time.Duration, brings bool, serve func() (master.SyncAnswered, bool, any, error)) {
	lost, lostReply := q.losesNext()
	if q.delayCall > 0 {
		q.delayCall--
		q.carryLate(from, number, serve)
		return
	}
	q.after(callTime, func() {
		if !from.alive {
			return
		}
		if !from.reaches() || lost {
			q.fail(from, number)
			return
		}
		q.calls++
		q.callBytes += size
		from.calls.count(q.now(), from)
		if before := q.parked[from.id]; before != nil { // a newer one ends it
			delete(q.parked, from.id)
			q.answer(before, master.SyncAnswered{})
		}
		c := &call{from: from, number: number, serve: serve}
		answer, news, standing, err := serve()
		if q.doubles > 0 && !q.away {
			q.doubles--
			q.note("the call of %s is carried out twice", from.id)
			answer, news, standing, err = serve()
		}
		switch {
		case q.away: // the power has failed
			q.fail(from, number)
		case lostReply || from.deaf:
			q.note("the answer to %s is lost", from.id)
			q.fail(from, number)
		case err != nil:
			q.refuse(c, err)
		case brings || news || hold <= 0 || !reflect.DeepEqual(q.told[from.id], standing):
			q.told[from.id] = standing
			q.answer(c, answer)
		default:
			q.parked[from.id] = c
			q.after(hold, func() {
				if q.parked[from.id] == c {
					delete(q.parked, from.id)
					q.answer(c, answer)
				}
			})
		}
	})
}

// carryLate carries a call out when its caller has given up, as a queue does that stood
// still with the call in its hands. Newer calls come before it.
func (q *queue) carryLate(from *node, number uint64, serve func() (master.SyncAnswered, bool, any, error)) {
	q.fail(from, number)
	q.after(callFailure+time.Duration(q.random.Int64N(int64(time.Minute))), func() {
		if q.away {
			return
		}
		_, _, _, err := serve()
		q.note("a call of %s that it gave up long ago is carried out: %v", from.id, err)
	})
}

// wake looks again for a pilot whose call is parked.
func (q *queue) wake(n *node) {
	c := q.parked[n.id]
	if c == nil || !n.alive || q.away {
		return
	}
	answer, news, standing, err := c.serve()
	if err == nil && !news && reflect.DeepEqual(q.told[n.id], standing) {
		return
	}
	delete(q.parked, n.id)
	switch {
	case q.away: // the power has failed
		q.fail(c.from, c.number)
		return
	case err != nil:
		q.refuse(c, err)
		return
	}
	q.told[n.id] = standing
	q.answer(c, answer)
}

func (q *queue) answer(c *call, answer master.SyncAnswered) {
	answer.N = c.number
	q.after(callTime+q.lag, func() {
		if !c.from.reaches() || c.from.deaf {
			q.fail(c.from, c.number)
			return
		}
		if answer.Reply.Settings.Site != "" {
			c.from.takeSettings(answer.Reply.Settings)
		}
		c.from.stepMaster(answer)
	})
}

func (q *queue) refuse(c *call, err error) {
	var stale *taskqueue.StaleTermError
	answer := master.SyncAnswered{Err: err.Error(), Stale: errors.As(err, &stale)}
	if !answer.Stale {
		q.note("the queue refuses the call of %s: %v", c.from.id, err)
		c.from.refused(err)
	}
	q.answer(c, answer)
}

// fail ends a call that nobody answers.
func (q *queue) fail(from *node, number uint64) {
	q.after(callFailure, func() { from.stepMaster(master.SyncAnswered{N: number, Err: "the queue does not answer"}) })
}

// bringsNews tells whether a call is answered at once.
func bringsNews(s *task.Sync) bool {
	return len(s.Outcomes)+len(s.Starts)+len(s.Returns)+len(s.Stored)+len(s.Lost)+len(s.Departed)+
		len(s.Refused)+len(s.Confirmed)+len(s.Report.SEReads) > 0
}

// standingOf is what a reply says of the state of things.
func standingOf(reply task.SyncReply) task.SyncReply {
	reply.Leases, reply.Acks, reply.ReportSeq = nil, nil, 0
	return reply
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
