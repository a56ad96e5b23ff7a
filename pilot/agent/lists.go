package agent

import (
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/wire"
	"github.com/pilotage-grid/pilotage/pilot/worker"
)

// lists is how task lists go from the master to workers. The loop owns it.
type lists struct {
	begun map[uint64]time.Time // broadcasts of this pilot's lists
	// The last whole list that a pilot was sent, in its form.
	first   *matcher.ListEntry
	version matcher.ListVersion
	data    []byte
}

// frame brings a message into its form. A list that many pilots ask for at the same
// time, as after an election, is brought into it once.
func (l *lists) frame(said message.Message) []byte {
	snapshot, whole := said.(message.Snapshot)
	if !whole || len(snapshot.List.Entries) == 0 {
		return frame(frameRole, wire.Encode(said))
	}
	if first := snapshot.List.Entries[0]; l.first != first || l.version != snapshot.List.Version {
		l.first, l.version, l.data = first, snapshot.List.Version, frame(frameRole, wire.Encode(said))
	}
	return l.data
}

// over tells how long a broadcast was under way, if it is one of this pilot's lists.
func (l *lists) over(n uint64) (took time.Duration, ours bool) {
	began, ours := l.begun[n]
	delete(l.begun, n)
	return time.Since(began), ours
}

// cast gives a task list to all pilots, or to this pilot's own worker alone.
func (r *roles) cast(act master.CastList) {
	if r.office.Own() {
		event := worker.ListBroadcast{ID: worker.BroadcastID{Root: r.network.peer, N: act.N}, From: r.network.peer, List: act.List}
		r.workerEvents(func() []message.Event { return []message.Event{event} })
		return
	}
	r.lists.begun[act.N] = time.Now()
	r.network.node.Broadcast(act.N, wire.Encode(act.List), true)
}

// deliver hands a broadcast of the master to the worker.
func (r *roles) deliver(d dht.Deliver) {
	if !r.office.Own() {
		said, err := wire.Decode(d.Payload)
		if list, ok := said.(message.TaskList); ok {
			r.stepWorker(worker.ListBroadcast{ID: worker.BroadcastID(d.ID), From: d.From, List: list})
			return
		}
		r.log.Warn("a broadcast cannot be read", "from", d.From, "error", err)
	}
	if d.Reply {
		r.network.node.Reply(d.ID, nil)
	}
}

// answer brings the worker's answer to the master that sent the list.
func (r *roles) answer(act worker.AnswerBroadcast) {
	if !r.office.Own() || act.ID.Root != r.network.peer {
		r.network.node.Reply(dht.CastID(act.ID), wire.Encode(r.sealed(act.ID.Root, act.Answer)))
		return
	}
	if answer, ok := r.copied(act.Answer).(message.Answer); ok {
		r.loop.Post(func() { r.stepMaster(master.BroadcastDone{N: act.ID.N, Answers: []message.Answer{answer}}) })
	}
}

// broadcastDone hands the aggregated answers to the master.
func (r *roles) broadcastDone(d dht.Done) {
	done := master.BroadcastDone{N: d.N, Missed: d.Missed}
	for _, data := range d.Data {
		said, err := wire.Decode(data)
		answer, ok := said.(message.Answer)
		if err != nil || !ok {
			r.log.Warn("an answer to the task list cannot be read", "error", err)
			continue
		}
		done.Answers = append(done.Answers, answer)
	}
	if took, ours := r.lists.over(d.N); ours {
		r.events(RoundDone{Took: took, Answered: len(done.Answers), Members: r.network.node.Size(), Peers: d.Peers})
	}
	r.stepMaster(done)
}
