package master

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// describe takes what a pilot says of itself, be it asked alone or in a census.
func (m *Master) describe(w *member, s message.State) {
	first, moved := !w.described, w.host != s.Pilot.Host
	w.described, w.talk.asked = true, time.Time{}
	w.host = s.Pilot.Host
	w.total = capacity{slots: s.Pilot.Slots, resources: s.Pilot.Resources}
	w.draining, w.stays, w.cache = s.Draining, s.Stays, s.Cache
	if s.Pilot.Lifetime > 0 {
		w.ends = m.now.Add(s.Pilot.Lifetime)
	}
	m.holding.outbox.pause(&m.step, &m.holding.site.handout, w, s.Stopped)
	if first || moved {
		m.holding.site.followNode(&m.step, &m.holding.outbox, w)
	}
	if first {
		m.holding.site.roster.size.described++
		m.holding.outbox.joins(&m.step, &m.holding.site.handout, w)
	}
}

// joins tells the queue of a member that this master has heard in its term, and of
// what it has in hand: who does not join is dead to the queue in the end. That it
// takes no new work is told anew as well.
func (o *outbox) joins(at *step, hand *handout, w *member) {
	o.joined[w.id] = o.call.number
	o.syncSoon(at, hand.gatherDelay(at))
}

// state takes a pilot's whole state, after a census or a reconnection: what
// it has in hand stays there, what it no longer has is to be run elsewhere.
func (m *Master) state(w *member, s message.State) {
	m.describe(w, s)
	m.holding.takeCopies(&m.step, []message.State{s})
	m.holding.site.inHand(&m.step, &m.holding.outbox, w, s)
	m.takeOutcomes(w, s.Outcomes, s.Seal, s.Seen)
	m.takeRest(w, s)
}

// takeRest takes what a state tells beside what is in hand and has ended.
func (m *Master) takeRest(w *member, s message.State) {
	m.takeStored(w, s.Stored)
	m.searches.copiesGone(&m.step, &m.holding, w, s.Gone)
	m.absent(w, s)
	m.holding.site.listAt(&m.step, w, s.List)
}

// inHand notes what a pilot has.
func (site *site) inHand(at *step, outbox *outbox, w *member, s message.State) {
	for _, in := range s.InHand {
		site.adopt(at, outbox, w, in)
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(j *placement) bool { return j.holding })
	w.promote()
	site.refreshPlaces(at, w)
}

// adopt notes one task that a pilot has, and tells it what is not wanted.
func (site *site) adopt(at *step, outbox *outbox, w *member, in message.InHand) {
	id := message.LeasedID{Lease: in.Attempt.Lease, Task: in.Attempt.Task}
	j := w.placements[id]
	if j == nil {
		j = site.roster.place(at, &site.handout, w, id, in.Attempt.Generation, in.Need)
		site.roster.nodes.Given(at.now, w.node())
	}
	site.progress(at, outbox, j, in)
	h := site.handout.held[id.Task]
	mine := h != nil && h.Generation == j.generation
	switch {
	case j.held != nil:
	case mine && h.phase <= ready:
		site.attach(at, j, h)
		h.Number = max(h.Number, in.Number)
		if in.Started {
			outbox.startedBy(at, &site.handout, j, in)
		}
	case in.Ended || mine && h.phase == ended && h.endedBy == in.Attempt:
	case mine:
		at.tell(w, message.Kill{Term: at.term, Task: id.Task, Lease: id.Lease, Reason: "another pilot has run it, or does"})
	case site.handout.cancelled.has(id):
		at.tell(w, message.Kill{Term: at.term, Task: id.Task, Lease: id.Lease, Reason: "cancelled"})
	case !in.Started && !at.provisional && site.roster.census.IsZero():
		at.retract(j)
	}
}

// progress brings a placement to where its pilot says that it is.
func (site *site) progress(at *step, outbox *outbox, j *placement, in message.InHand) {
	w := j.member
	switch {
	case in.Started || in.Ended:
		fresh := j.phase == assigned
		site.start(at, outbox, j, in.Attempt)
		if fresh && j.held != nil {
			outbox.startedBy(at, &site.handout, j, in)
		}
		if in.Ended {
			site.finish(at, outbox, j, in.Attempt)
		}
	case in.Prefill:
		w.unwait(j)
		w.release(j)
		w.waiting = append(w.waiting, j)
		slices.SortStableFunc(w.waiting, byOrder)
	default:
		w.unwait(j)
		if !j.holding {
			w.take(j)
		}
	}
}

// startedBy tells the queue of a start that was found in a state.
func (o *outbox) startedBy(at *step, hand *handout, j *placement, in message.InHand) {
	o.starts = append(o.starts, task.Start{Attempt: in.Attempt, Number: in.Number, Started: at.now})
	o.syncSoon(at, hand.gatherDelay(at))
}

// absent takes up what a pilot should have and has not: it was lost on the
// way. What was assigned after the pilot spoke is on its way still.
func (m *Master) absent(w *member, s message.State) {
	has := make(map[message.LeasedID]bool, len(s.InHand))
	for _, in := range s.InHand {
		has[message.LeasedID{Lease: in.Attempt.Lease, Task: in.Attempt.Task}] = true
	}
	for _, j := range w.inOrder() {
		if has[j.LeasedID] || j.serial > s.Seen {
			continue
		}
		if h := m.holding.site.drop(&m.step, j); h != nil {
			m.holding.backToReady(&m.step, h, j.phase != assigned)
		}
	}
}

// report takes a pilot's news.
func (m *Master) report(w *member, r message.Report) {
	if r.Draining != w.draining {
		w.draining = r.Draining
		m.holding.outbox.syncSoon(&m.step, m.holding.site.handout.gatherDelay(&m.step))
	}
	m.holding.outbox.pause(&m.step, &m.holding.site.handout, w, r.Stopped)
	w.stays, w.cache = r.Stays, r.Cache
	if r.WantList {
		w.row.asked = time.Time{}
		m.holding.site.list.greet(&m.step, w)
	}
	if r.Row != nil {
		m.holding.site.setRow(&m.step, w, *r.Row)
	}
	for _, update := range r.Updates {
		m.holding.site.updateRow(&m.step, w, update)
	}
	if m.own.on && len(r.Ended) > 0 {
		m.holding.outbox.syncSoon(&m.step, m.holding.site.handout.gatherDelay(&m.step)) // for the next task, although outputs may take long
	}
	for _, attempt := range r.Ended {
		if j := w.placements[message.LeasedID{Lease: attempt.Lease, Task: attempt.Task}]; j != nil {
			m.holding.site.finish(&m.step, &m.holding.outbox, j, attempt)
		}
	}
	for _, start := range r.Starts {
		m.payloadStarted(w, start)
	}
	m.takeOutcomes(w, r.Outcomes, r.Seal, r.Seen)
	m.takeStored(w, r.Stored)
	m.holding.site.handout.badCopies(&m.step, &m.holding.outbox, w, r.BadCopies)
	for _, back := range r.Returned {
		m.handedBack(w, back, r.Seen)
	}
	for _, answer := range r.Retracts {
		m.retracted(w, answer, r.Seen)
	}
	m.soles.takeLeaves(&m.step, &m.holding.site, w, r.Leaves)
	m.takeKept(w, r.Kept)
	m.searches.copiesGone(&m.step, &m.holding, w, r.Gone)
	m.holding.site.replication.takeReplicated(&m.step, &m.holding.site.roster, &m.holding.site.list, &m.holding.outbox, w, r.Replicated)
	m.holding.outbox.addSEReads(&m.step, r.SEReads)
	m.holding.site.refreshPlaces(&m.step, w)
	m.holding.site.replication.replicationChanged(&m.step, &m.holding.site.roster, &m.holding.site.list)
	if r.Row != nil {
		m.returnInfeasible()
	}
}

func (m *Master) payloadStarted(w *member, s task.Start) {
	m.holding.outbox.starts = append(m.holding.outbox.starts, s)
	m.holding.outbox.syncSoon(&m.step, m.holding.site.handout.gatherDelay(&m.step))
	j := w.placements[message.LeasedID{Lease: s.Attempt.Lease, Task: s.Attempt.Task}]
	if j == nil {
		if w.described && w.talk.asked.IsZero() {
			m.wantState(w) // it has what was thought lost
		}
		return
	}
	m.holding.site.start(&m.step, &m.holding.outbox, j, s.Attempt)
}

// takeOutcomes passes outcomes on to the queue, and draws the consequences
// for the site at once: outputs exist, dependants may start, the slot is free. A
// pilot speaks of its own attempts only.
func (m *Master) takeOutcomes(w *member, outcomes []task.Outcome, seal *task.Seal, seen uint64) {
	for i := range outcomes {
		m.takeOutcome(w, &outcomes[i], seal, seen)
	}
}

func (m *Master) takeOutcome(w *member, o *task.Outcome, seal *task.Seal, seen uint64) {
	if o.Attempt.Pilot != w.id {
		return
	}
	j := w.placements[message.LeasedID{Lease: o.Attempt.Lease, Task: o.Attempt.Task}]
	if j != nil && j.serial > seen {
		j = nil // the outcome is an earlier attempt's
	}
	h := m.holding.site.handout.held[o.Attempt.Task]
	if h != nil && h.Generation != o.Attempt.Generation {
		h = nil
	}
	if !o.OK && h != nil && h.lease == o.Attempt.Lease && h.superseded(o.Attempt, j) {
		// Another attempt counts: a failure of this one decides nothing here.
		if j != nil {
			m.holding.site.drop(&m.step, j)
		}
		if m.holding.outbox.addOutcome(w.peer, *o, seal) {
			m.holding.outbox.outcomeSoon(&m.step, &m.holding.site.handout)
		}
		return
	}
	var freed *held
	if j != nil {
		freed = m.holding.site.drop(&m.step, j)
	}
	fresh := m.holding.outbox.addOutcome(w.peer, *o, seal)
	if fresh {
		m.holding.site.learnEnd(&m.step, &m.holding.outbox, w, o, h)
	}
	switch {
	case !fresh:
	case h != nil && h.phase != ended && (o.OK || h.lease == o.Attempt.Lease):
		m.holding.site.end(&m.step, &m.holding.outbox, h, o)
		return
	case o.OK && m.holding.site.handout.held[o.Attempt.Task] == nil:
		m.holding.site.produced(&m.step, &m.holding.outbox, *o) // the site lacks the task, but may hold what reads its outputs
	}
	if freed != nil {
		m.holding.backToReady(&m.step, freed, true)
	}
}

// learnEnd draws from a new outcome what it says of node and run times; h is its
// task, nil if the site does not hold that.
func (site *site) learnEnd(at *step, outbox *outbox, w *member, o *task.Outcome, h *held) {
	site.roster.noteEnd(at, w, o, h)
	outbox.outcomeSoon(at, &site.handout)
	if !o.OK {
		return
	}
	at.learnRun(o.Run)
	site.placing.pace.Learn(o.Reads, o.StageIn)
	if h != nil {
		site.placing.durations.Learn(h.Task.Class(), o.Run)
	}
}

// end takes a task from pilots and list until the queue has judged an outcome.
func (site *site) end(at *step, outbox *outbox, h *held, o *task.Outcome) {
	if j := h.placement; j != nil {
		at.tell(j.member, message.Kill{Term: at.term, Task: j.Task, Lease: j.Lease, Reason: "another pilot has run it"})
		site.handout.detach(j)
	}
	h.endedBy = o.Attempt
	site.unlist(at, h)
	site.handout.setPhase(&site.placing, &site.replication, h, ended)
	if o.OK {
		site.produced(at, outbox, *o)
	}
}

// superseded tells whether another attempt counts for a task than this one,
// whose placement is own.
func (h *held) superseded(attempt task.AttemptID, own *placement) bool {
	return h.phase == placed && h.placement != own || h.phase == ended && h.endedBy != attempt
}

// refusals is how often pilots may hand a task back before the queue gets it.
const refusals = 3

// handedBack takes an assignment back that a pilot did not start, or that was
// killed without wanting an outcome.
func (m *Master) handedBack(w *member, back message.Handback, seen uint64) {
	j := w.placements[message.LeasedID{Lease: back.Lease, Task: back.Task}]
	if j == nil || j.serial > seen {
		return
	}
	h := m.holding.site.drop(&m.step, j)
	if h == nil {
		return
	}
	if len(back.Missing) > 0 {
		m.holding.site.roster.noteUnread(&m.step, w, &back, h)
		m.searches.missing(&m.step, &m.holding, h, back)
		return
	}
	if !w.draining {
		h.refused++
		m.holding.site.refuse(&m.step, w, h, back.Reason)
	}
	m.holding.backToReady(&m.step, h, j.phase != assigned)
	if h.refused >= refusals {
		m.holding.giveBack(&m.step, h, back.Reason)
	}
}

func (m *Master) retracted(w *member, answer message.RetractAnswer, seen uint64) {
	j := w.placements[message.LeasedID{Lease: answer.Lease, Task: answer.Task}]
	if j == nil || j.serial > seen {
		return
	}
	unasked := !j.retracting
	j.retracting = false
	m.holding.site.placing.retractSoon(&m.step)
	if !answer.Retracted {
		return
	}
	if h := m.holding.site.drop(&m.step, j); h != nil {
		m.holding.backToReady(&m.step, h, false)
		if unasked && m.holding.site.handout.makes(w, h) {
			m.wantState(w) // which lacks what it was thought to run
		}
	}
}
