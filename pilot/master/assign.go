package master

import (
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// assign solves the rank matrix and gives out the tasks (004, section III-C).
// With a fixed period it does so at the end of a round only.
func (site *site) assign(at *step, outbox *outbox) {
	if at.settings.RoundEvery > 0 && !site.list.round.solve || !site.mayStart(at, outbox) {
		return
	}
	site.list.round.solve = false
	site.placing.solveDue = time.Time{}
	site.passMarked(at)
	if !site.placing.unsolved || site.placing.matrix.Ready() == 0 && !site.placing.follows {
		return
	}
	if due := site.placing.solved.Add(SolvePause(len(site.roster.members))); at.now.Before(due) {
		site.placing.solveDue = due
		return
	}
	site.placing.unsolved, site.placing.solved = false, at.now
	site.placing.follows = false
	site.placing.matrix.SetLocalityWait(site.placing.localityWait(at), site.roster.size.slots, site.placing.pace.Times())
	site.placing.matrix.SetForesight(site.outlook(at))
	site.give(at, outbox, site.placing.matrix.Solve(site.placing.solver(at)))
	site.placing.makeRoom(at, &site.roster)
}

// give tells pilots what they are to run.
func (site *site) give(at *step, outbox *outbox, assignments []matcher.Assignment) {
	batches, bytes := make(map[task.PilotID][]message.Assignment), make(map[task.PilotID]int)
	at.serial++
	for _, a := range assignments {
		h, w := site.list.owner[a.No], site.roster.members[a.Pilot]
		if h == nil || w == nil || h.phase > ready {
			continue
		}
		if a.Prefill && h.phase == ready && w.prefillOf(at) == 0 { // by what it has been given in this solution
			site.placing.matrix.SetReady(a.No, true)
			site.refreshPlaces(at, w) // the solution has taken a place of it
			continue
		}
		batches[w.id] = append(batches[w.id], site.bind(at, h, w, a.Prefill))
		if bytes[w.id] += h.Task.TextBytes(); bytes[w.id] > mostAssigned {
			site.send(at, map[task.PilotID][]message.Assignment{w.id: batches[w.id]})
			delete(batches, w.id)
			delete(bytes, w.id)
			at.serial++
		}
	}
	site.send(at, batches)
	if len(batches) > 0 {
		outbox.refill(at, &site.handout, &site.roster)
	}
	if after := site.placing.matrix.LookAgain(); after > 0 {
		site.placing.lookAgain(at, after)
	}
}

// mostAssigned is from how many bytes of descriptions on an order to a pilot is sent, and the
// rest in a further one: a message has at most 8 MiB, compressed.
const mostAssigned = 2 << 20

// send tells pilots what they have been bound to.
func (site *site) send(at *step, batches map[task.PilotID][]message.Assignment) {
	for id, tasks := range byKey(batches) {
		w := site.roster.members[id]
		w.talk.given = at.serial
		site.refreshPlaces(at, w)
		at.tell(w, message.Assign{Term: at.term, Serial: at.serial, Tasks: tasks})
	}
	if len(batches) > 0 {
		site.replication.replicationChanged(at, &site.roster, &site.list)
	}
}

// bind notes that a pilot is given a task, at once or early. Of an attempt there under the
// same lease, which the pilot is told to kill, the pilot will tell what it took.
func (site *site) bind(at *step, h *held, w *member, prefill bool) message.Assignment {
	if dying := w.placements[h.id()]; dying != nil {
		site.drop(at, dying)
	}
	j := site.roster.place(at, &site.handout, w, h.id(), h.Generation, h.Task.Resources)
	j.serial = at.serial
	site.roster.nodes.Given(at.now, w.node())
	site.replication.read(at, w, site.list.entries[h.no])
	site.attach(at, j, h)
	if prefill {
		w.waiting = append(w.waiting, j)
		site.placing.retractSoon(at)
	} else {
		w.take(j)
	}
	a := message.Assignment{
		Task: h.Task, Lease: h.lease, Generation: h.Generation, Number: h.Number,
		Files: site.handout.inputs(h.Task), Prefill: prefill,
	}
	if !h.readySince.IsZero() {
		a.Waited = at.now.Sub(h.readySince)
	}
	return a
}

// refill asks the queue for more before the hand-out runs dry.
func (o *outbox) refill(at *step, hand *handout, roster *roster) {
	if hand.counts.phases[ready] < roster.size.slots && o.call.lastReady >= roster.size.slots {
		o.syncSoon(at, 0)
	}
}
