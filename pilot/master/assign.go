package master

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// assign solves the rank matrix and gives out the tasks (004, section III-C).
// With a fixed period it does so at the end of a round only.
func (m *Master) assign() {
	if m.settings.RoundEvery > 0 && !m.list.solve || !m.mayStart() {
		return
	}
	m.list.solve = false
	m.placing.solveDue = time.Time{}
	if !m.placing.unsolved || m.placing.matrix.Ready() == 0 {
		return
	}
	if due := m.placing.solved.Add(SolvePause(len(m.roster.members))); m.now.Before(due) {
		m.placing.solveDue = due
		return
	}
	m.placing.unsolved, m.placing.solved = false, m.now
	m.setPatience()
	m.give(m.placing.matrix.Solve(m.placing.solver(&m.step, &m.roster)))
	m.placing.makeRoom(&m.step, &m.roster)
}

// give tells pilots what they are to run.
func (m *Master) give(assignments []matcher.Assignment) {
	batches := make(map[task.PilotID][]message.Assignment)
	m.serial++
	for _, a := range assignments {
		h, w := m.list.owner[a.No], m.roster.members[a.Pilot]
		if h == nil || w == nil || h.phase != ready {
			continue
		}
		if a.Prefill && m.placing.prefillOf(&m.step, &m.handout, w) == 0 { // by what it has been given in this solution
			m.placing.matrix.SetReady(a.No, true)
			m.refreshPlaces(w) // the solution has taken a place of it
			continue
		}
		batches[w.id] = append(batches[w.id], m.bind(h, w, a.Prefill))
	}
	m.send(batches)
	if len(batches) > 0 {
		m.outbox.refill(&m.step, &m.handout, &m.roster)
	}
	if m.patient() && m.roster.size.free > 0 && m.placing.matrix.Ready() > 0 {
		m.placing.lookAgain(&m.step, m.lookPause())
	}
}

// send tells pilots what they have been bound to.
func (m *Master) send(batches map[task.PilotID][]message.Assignment) {
	for _, id := range slices.Sorted(maps.Keys(batches)) {
		w := m.roster.members[id]
		w.given = m.serial
		m.refreshPlaces(w)
		m.tell(w, message.Assign{Term: m.term, Serial: m.serial, Tasks: batches[id]})
	}
	if len(batches) > 0 {
		m.replication.replicationChanged(&m.step, &m.roster, &m.list)
	}
}

// bind notes that a pilot is given a task, at once or early.
func (m *Master) bind(h *held, w *member, prefill bool) message.Assignment {
	j := m.roster.place(&m.step, &m.handout, w, h.id(), h.Generation, h.Task.Resources)
	j.serial = m.serial
	m.roster.nodes.Given(m.now, w.node())
	m.replication.read(&m.step, w, m.list.entries[h.no])
	m.attach(j, h)
	if prefill {
		w.waiting = append(w.waiting, j)
		m.placing.retractSoon(&m.step)
	} else {
		w.take(j)
	}
	a := message.Assignment{
		Task: h.Task, Lease: h.lease, Generation: h.Generation, Number: h.Number,
		Files: m.handout.inputs(h.Task), Prefill: prefill,
	}
	if !h.readySince.IsZero() {
		a.Waited = m.now.Sub(h.readySince)
	}
	return a
}

// refill asks the queue for more before the hand-out runs dry.
func (o *outbox) refill(at *step, hand *handout, roster *roster) {
	if hand.counts.phases[ready] < roster.size.slots && o.lastWaiting >= roster.size.slots {
		o.syncSoon(at, 0)
	}
}
