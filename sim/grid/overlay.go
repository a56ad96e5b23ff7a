package grid

import (
	"time"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/wire"
	"github.com/pilotage-grid/pilotage/pilot/worker"
)

// send carries a message from pilot to pilot, in its form on the wire so that
// nothing is shared. Messages of one pair keep their order, as they all take the
// same time.
func (n *node) send(t message.Tell) {
	target := n.peers[t.To]
	if target == nil {
		n.fail("%s sends %T to nobody: %q", n.peer, t.Message, t.To)
		return
	}
	n.sums.Messages++
	data := wire.Encode(t.Message)
	latency := n.site.Latency
	if target == n {
		latency = 0
	}
	if given, ok := t.Message.(message.Assign); ok {
		for _, a := range given.Tasks {
			n.record.Note(n.timeline.Now(), "assign", int64(target.index), int64(n.taskOf(a.Task.ID)), int64(a.Generation))
		}
	}
	n.timeline.After(latency, func() {
		said, err := wire.Decode(data)
		if err != nil {
			n.fail("%s to %s: %T: %w", n.peer, target.peer, t.Message, err)
			return
		}
		switch said.(type) {
		case message.State, message.Report:
			target.stepMaster(master.FromPilot{From: n.peer, Message: said})
		default:
			target.stepWorker(worker.FromMaster{From: n.peer, Message: said})
		}
	})
}

// gathering is a broadcast whose answers are being gathered.
type gathering struct {
	root    *node
	done    master.BroadcastDone
	missing int
}

// cast broadcasts a task list over regions of the site's network: as many hops
// as there are eightfolds of pilots, one way and back.
func (s *site) cast(from *node, c master.CastList) {
	id := worker.BroadcastID{Root: from.peer, N: c.N}
	g := &gathering{root: from, done: master.BroadcastDone{N: c.N}}
	s.gatherings[id] = g
	s.sums.Broadcasts++
	delay := s.hops() * s.Latency
	for _, n := range s.nodes {
		if !n.alive {
			continue
		}
		g.missing++
		s.timeline.After(delay, func() {
			if !n.alive {
				g.done.Missed = append(g.done.Missed, n.peer)
				s.gathered(id, g)
				return
			}
			n.stepWorker(worker.ListBroadcast{ID: id, From: from.peer, List: c.List})
		})
	}
}

func (s *site) hops() time.Duration {
	hops := time.Duration(1)
	for reach := 8; reach < len(s.nodes); reach *= 8 {
		hops++
	}
	return hops
}

// answered takes one pilot's answer back to the root.
func (s *site) answered(n *node, a worker.AnswerBroadcast) {
	g := s.gatherings[a.ID]
	if g == nil {
		return
	}
	s.timeline.After(s.hops()*s.Latency, func() {
		g.done.Answers = append(g.done.Answers, a.Answer)
		s.gathered(a.ID, g)
	})
}

func (s *site) gathered(id worker.BroadcastID, g *gathering) {
	if g.missing--; g.missing == 0 {
		delete(s.gatherings, id)
		g.root.stepMaster(g.done)
	}
}
