package pilot_test

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/wire"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// What lies between the pilots of a world, and between them and its queue.

// cut loses every message between two pilots for a while. When the link is
// good again, whoever of the two is master meets the other.
func (w *world) cut(a, b *node, d time.Duration) {
	if a == b || w.broken[link(a, b)] {
		return
	}
	w.broken[link(a, b)] = true
	w.after(d, func() {
		delete(w.broken, link(a, b))
		if office := w.office; office.alive && (office == a || office == b) {
			other := a
			if office == a {
				other = b
			}
			if other.alive {
				office.stepMaster(master.PilotUp{Pilot: other.id, Peer: other.peer})
			}
		}
	})
}

func link(a, b *node) [2]task.PilotID { return [2]task.PilotID{min(a.id, b.id), max(a.id, b.id)} }

// send carries a message in its form on the wire.
func (w *world) send(from *node, to task.PeerID, m message.Message) {
	target := w.byPeer(to)
	if target == nil {
		w.failed("%s sends %T to nobody: %q", from.id, m, to)
		return
	}
	if order, is := m.(message.Assign); is {
		for _, given := range order.Tasks {
			target.given[given.Task.ID] = true // on its way it counts, too: it may arrive after a break of the link
		}
	}
	data := wire.Encode(m)
	pair := [2]task.PilotID{from.id, target.id}
	at := w.now.Add(w.latency)
	if before := w.arrival[pair]; at.Before(before) {
		at = before
	}
	w.arrival[pair] = at
	w.after(at.Sub(w.now), func() {
		if !target.alive || from != target && w.broken[link(from, target)] {
			w.detail("%s -> %s %T is lost", from.id, target.id, m)
			return
		}
		said, err := wire.Decode(data)
		if err != nil {
			w.failed("%s -> %s %T: %v", from.id, target.id, m, err)
			return
		}
		switch said := said.(type) {
		case message.State, message.Report:
			target.stepMaster(master.FromPilot{From: from.peer, Message: said})
		default:
			target.stepWorker(worker.FromMaster{From: from.peer, Message: said})
		}
	})
}

// cast broadcasts a task list and gathers the answers.
func (w *world) cast(from *node, c master.CastList) {
	w.detail("%s broadcasts list %d: +%d -%d%s", from.id, c.List.Delta.Version.N, len(c.List.Delta.Add), len(c.List.Delta.Remove), listExtras(c.List))
	data, id := wire.Encode(c.List), worker.BroadcastID{Root: from.peer, N: c.N}
	done := &gathering{master.BroadcastDone{N: c.N}, 0}
	for _, n := range w.live() {
		if n != from && w.broken[link(from, n)] {
			done.Missed = append(done.Missed, n.peer)
			continue
		}
		done.missing++
		w.after(w.broadcast, func() { n.deliver(from, id, data, done) })
	}
	w.after(500*time.Millisecond, func() { w.castDone(from, done) })
}

// gathering is a broadcast under way.
type gathering struct {
	master.BroadcastDone
	missing int // -1 when it is over
}

func (w *world) castDone(from *node, g *gathering) {
	if g.missing < 0 || !from.alive {
		return
	}
	g.missing = -1
	from.stepMaster(g.BroadcastDone)
}

func (n *node) deliver(from *node, id worker.BroadcastID, data []byte, g *gathering) {
	w := n.w
	if !n.alive || n != from && w.broken[link(from, n)] {
		return
	}
	said, err := wire.Decode(data)
	if err != nil {
		w.failed("broadcast: %v", err)
		return
	}
	event := worker.ListBroadcast{ID: id, From: from.peer, List: said.(message.TaskList)}
	for _, action := range n.stepWorker(event) {
		answer, ok := action.(worker.AnswerBroadcast)
		if !ok {
			continue
		}
		reply := wire.Encode(answer.Answer)
		w.after(w.broadcast, func() {
			if !from.alive || g.missing < 0 {
				return
			}
			said, err := wire.Decode(reply)
			if err != nil {
				w.failed("answer: %v", err)
				return
			}
			w.detail("%s has the answer of %s", from.id, n.id)
			g.Answers = append(g.Answers, said.(message.Answer))
			if g.missing--; g.missing == 0 {
				w.castDone(from, g)
			}
		})
	}
}

func listExtras(l message.TaskList) (extras string) {
	if l.Census {
		extras += " census"
	}
	if len(l.Ask) > 0 {
		extras += fmt.Sprintf(" asks for %d files", len(l.Ask))
	}
	return extras
}

// callSync carries a call to the queue.
func (w *world) callSync(from *node, c master.CallSync) {
	w.detail("%s calls %d: leases %v, %+v, %d outcomes, %d returns", from.id, c.N, c.Sync.Leases, c.Sync.Capacity, len(c.Sync.Outcomes), len(c.Sync.Returns))
	lost, lostReply := w.loseCall, w.loseReply
	w.loseCall, w.loseReply = false, false
	w.after(w.syncTime, func() {
		switch {
		case !from.alive:
		case w.queue.away || lost:
			w.answerSync(from, master.SyncAnswered{N: c.N, Err: "the queue does not answer"})
		default:
			w.queue.arrive(from, c, lostReply)
		}
	})
}

func (w *world) answerSync(to *node, answer master.SyncAnswered) {
	w.after(w.syncTime, func() {
		if to.alive {
			w.detail("%s has answer %d: leases %v unknown %v acks %d %s", to.id, answer.N, leaseNames(answer.Reply.Leases), answer.Reply.Unknown, len(answer.Reply.Acks), answer.Err)
			to.stepMaster(answer)
		}
	})
}

func leaseNames(leases []task.Lease) (names []string) {
	for _, l := range leases {
		for _, t := range l.Tasks {
			names = append(names, fmt.Sprintf("%d:%s", l.ID, t.Task.ID.Name()))
		}
	}
	return names
}
