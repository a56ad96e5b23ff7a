package worker

import (
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// mastership is whom a worker works for.
type mastership struct {
	peer     task.PeerID // master of the term, also while it is in doubt
	inOffice bool        // it is not in doubt
	term     task.Term
	seen     uint64       // serial number of the last Assign or Want of the term
	early    []FromMaster // of a term that the overlay has not told of yet
}

// maxEarly bounds the messages kept of a master that is not in office yet.
const maxEarly = 1000

// hears tells whether a message is the master's in office; one of a lower term
// is ignored, one of a higher term waits until the overlay tells
// of it. Acks are facts, whoever brings them.
func (m *mastership) hears(e FromMaster) bool {
	term, has := termOf(e.Message)
	if has && m.term.Less(term) {
		if len(m.early) < maxEarly {
			m.early = append(m.early, e)
		}
		return false
	}
	_, fact := e.Message.(message.Acks)
	return fact || e.From == m.peer && (!has || term == m.term)
}

// termOf returns the term that a message names.
func termOf(m message.Message) (task.Term, bool) {
	switch m := m.(type) {
	case message.Assign:
		return m.Term, true
	case message.Retract:
		return m.Term, true
	case message.Kill:
		return m.Term, true
	case message.Want:
		return m.Term, true
	case message.KeepCopy:
		return m.Term, true
	case message.Replicate:
		return m.Term, true
	case message.Snapshot:
		return m.List.Version.Term, true
	}
	return task.Term{}, false
}

// masterInOffice takes the overlay's word on who is master. A new term begins
// with an empty task list, and hears again of everything that the queue has
// not acknowledged: the census may have missed it.
func (w *Worker) masterInOffice(e message.MasterInOffice) {
	m := &w.mastership
	if m.inOffice = e.Peer != ""; !m.inOffice {
		w.unjudged.deliverAfter(&w.step)
		return
	}
	w.unjudged.delivery = delivery{}
	m.peer = e.Peer
	if e.Term == m.term {
		return
	}
	m.term, m.seen = e.Term, 0
	w.row.begin(&w.step, m.term)
	w.unjudged.tellAll(&w.step)
	w.soles.offerAnew()
	early := m.early
	m.early = nil
	for _, said := range early {
		w.fromMaster(said)
	}
}

// fromMaster handles a message of the master.
func (w *Worker) fromMaster(e FromMaster) {
	if !w.mastership.hears(e) {
		return
	}
	switch m := e.Message.(type) {
	case message.Acks:
		w.acknowledge(m)
	case message.Assign:
		if m.Serial <= w.mastership.seen {
			return // overtaken by what was said since: the master counts it as lost
		}
		w.mastership.seen = m.Serial
		for _, assignment := range m.Tasks {
			w.assigned(assignment)
		}
	case message.Retract:
		w.attempts.retract(&w.step, m)
	case message.Kill:
		w.attempts.kill(&w.step, m)
	case message.Snapshot:
		w.row.snapshot(&w.step, m.List)
	case message.Want:
		w.wanted(m)
	case message.KeepCopy:
		w.handOuts.keep(w.now, m)
	case message.StoreOrder:
		w.soles.takeOver(&w.step, m.File)
	case message.Replicate:
		w.replicas.ordered(&w.step, m, w.readiness.stopped, w.cache.Capacity)
	case message.DrainOrder:
		if !w.readiness.draining {
			w.act(Draining{Reason: m.Reason})
		}
		w.drain(m.Reason)
	}
}

func (w *Worker) wanted(m message.Want) {
	w.mastership.seen = max(w.mastership.seen, m.Serial)
	if m.State {
		w.act(message.Tell{To: w.mastership.peer, Message: *w.state(directOutcomes, m.Copies)})
	}
	if m.Row {
		w.row.tell(&w.step, 0)
	}
}

// listBroadcast applies the list's changes and answers with this pilot's row.
func (w *Worker) listBroadcast(e ListBroadcast) {
	answer := message.Answer{Pilot: w.self.ID, Peer: w.peer, Have: w.row.evaluator.Local(e.List.Ask)}
	if e.From == w.mastership.peer && e.List.Delta.Version.Term == w.mastership.term {
		answer.Update = w.row.apply(&w.step, e.List.Delta)
	}
	if e.List.Census {
		answer.State = w.state(censusOutcomes, e.List.Copies)
	}
	w.act(AnswerBroadcast{ID: e.ID, Answer: answer})
}
