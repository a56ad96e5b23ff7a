package pilot

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// describe takes what a pilot says of itself.
func (m *Master) describe(w *worker, s State) {
	w.described = true
	w.total = capacity{slots: s.Pilot.Slots, resources: s.Pilot.Resources}
	w.draining = s.Draining
	w.cache = s.Cache
}

// state takes a pilot's whole state, after a census or a reconnection: what
// it has in hand stays there, what it no longer has is to be run elsewhere.
func (m *Master) state(w *worker, s State) {
	first := !w.described
	m.describe(w, s)
	for _, copied := range s.Copies {
		if m.provisional {
			m.addLease(copied)
		}
	}
	m.takeOutcomes(w, s.Outcomes)
	m.takeStored(s.Stored)
	inHand := make(map[task.ID]bool, len(s.InHand))
	for _, job := range s.InHand {
		h := m.held[job.Attempt.Task]
		if h == nil || h.lease != job.Attempt.Lease || h.Generation != job.Attempt.Generation {
			m.tell(w.id, Kill{Term: m.term, Task: job.Attempt.Task, Lease: job.Attempt.Lease, Reason: "the site no longer holds this task"})
			continue
		}
		inHand[job.Attempt.Task] = true
		m.adopt(w, h, job)
	}
	for _, id := range sortedKeys(w.jobs) {
		if h := w.jobs[id]; !inHand[id] && (h.phase == assigned || h.phase == started) {
			m.backToReady(h, h.phase == started)
		}
	}
	w.promote()
	m.refreshPlaces(w)
	if first {
		m.syncSoon(m.config.SyncDelay) // the site's capacity has changed
	}
}

// adopt notes that a pilot has a task of the hand-out.
func (m *Master) adopt(w *worker, h *held, job InHand) {
	switch {
	case h.phase == ended:
		return
	case h.pilot == w.id:
	case h.pilot != "":
		m.tell(w.id, Kill{Term: m.term, Task: h.Task.ID, Lease: h.lease, Reason: "another pilot runs it"})
		return
	}
	if h.no != 0 {
		m.matrix.SetReady(h.no, false)
	}
	h.pilot, h.Number = w.id, max(h.Number, job.Number)
	if h.assignedAt.IsZero() {
		h.assignedAt = m.now
	}
	w.jobs[h.Task.ID] = h
	h.phase = assigned
	if job.Started {
		h.phase = started
		m.unlist(h)
		m.outbox.starts = append(m.outbox.starts, task.Start{Attempt: job.Attempt, Number: job.Number, Started: m.now})
	}
	if !job.Prefill && !h.holding {
		w.take(h)
	}
}

// report takes a pilot's news.
func (m *Master) report(w *worker, r Report) {
	if r.Draining != w.draining {
		w.draining = r.Draining
		m.syncSoon(m.config.SyncDelay)
	}
	w.cache = r.Cache
	if r.WantList {
		m.greet(w)
	}
	if r.Row != nil && m.matrix.SetRow(*r.Row) {
		w.listed, w.rowWanted = true, time.Time{}
	}
	for _, update := range r.Updates {
		m.updateRow(w, update)
	}
	for _, start := range r.Starts {
		m.payloadStarted(w, start)
	}
	m.takeOutcomes(w, r.Outcomes)
	m.takeStored(r.Stored)
	for _, handback := range r.Returned {
		m.handedBack(w, handback)
	}
	for _, answer := range r.Retracts {
		m.retracted(w, answer)
	}
	m.addSEReads(r.SEReads)
	m.refreshPlaces(w)
	if r.Row != nil {
		m.returnInfeasible()
	}
}

func (m *Master) payloadStarted(w *worker, start task.Start) {
	m.outbox.starts = append(m.outbox.starts, start)
	m.syncSoon(m.config.SyncDelay)
	h := w.jobs[start.Attempt.Task]
	if h == nil || h.lease != start.Attempt.Lease || h.phase != assigned {
		return
	}
	h.phase, h.retracting = started, false
	if !h.holding {
		w.take(h)
	}
	m.unlist(h)
}

// takeOutcomes passes outcomes on to the queue, and draws the consequences
// for the site at once: outputs exist, dependants may start, the slot is free.
func (m *Master) takeOutcomes(w *worker, outcomes []task.Outcome) {
	for _, outcome := range outcomes {
		if !m.outbox.addOutcome(w.peer, outcome) {
			continue
		}
		m.outcomeSoon()
		h := m.held[outcome.Attempt.Task]
		if h == nil || h.Generation != outcome.Attempt.Generation || h.phase == ended {
			continue
		}
		if !outcome.OK && h.lease != outcome.Attempt.Lease {
			continue
		}
		if !outcome.OK && h.pilot != "" && h.pilot != outcome.Attempt.Pilot {
			continue // another pilot has it by now
		}
		if h.pilot != "" && h.pilot != outcome.Attempt.Pilot {
			m.tell(h.pilot, Kill{Term: m.term, Task: h.Task.ID, Lease: h.lease, Reason: "another pilot has ended it"})
		}
		m.end(h)
		if outcome.OK {
			m.produced(outcome)
		}
	}
}

// end takes a task from its pilot and the list until the queue has judged.
func (m *Master) end(h *held) {
	if h.pilot != "" {
		m.takeFrom(h)
	}
	m.unlist(h)
	h.phase = ended
}

// produced makes a task's outputs known to the hand-out.
func (m *Master) produced(outcome task.Outcome) {
	for _, output := range outcome.Outputs {
		file := &task.File{
			LFN: output.LFN, Size: output.Size, Digest: output.Digest, Exec: output.Exec,
			Producer: outcome.Attempt, Announced: []task.Site{outcome.Site},
		}
		if output.URL != "" {
			file.Replicas = []task.Replica{{Site: outcome.Site, URL: output.URL}}
		}
		m.files[output.LFN] = file
		m.fileExists(output.LFN)
	}
}

func (m *Master) takeStored(stored []task.Stored) {
	for _, s := range stored {
		if !m.outbox.addStored(s) {
			continue
		}
		m.syncSoon(m.config.SyncDelay)
		file := m.files[s.LFN]
		if file == nil || file.Producer != s.Attempt {
			continue
		}
		replica := task.Replica{Site: m.settings.Site, URL: s.URL}
		if !slices.Contains(file.Replicas, replica) {
			file.Replicas = append(slices.Clone(file.Replicas), replica)
		}
	}
}

// refusals is how often pilots may hand a task back before the queue gets it.
const refusals = 3

// handedBack takes an assignment back that a pilot did not start.
func (m *Master) handedBack(w *worker, back Handback) {
	h := w.jobs[back.Task]
	if h == nil || h.lease != back.Lease || h.phase == ended {
		return
	}
	if len(back.Missing) > 0 {
		m.missing(h, back)
		return
	}
	m.backToReady(h, false)
	if w.draining {
		return
	}
	m.wantRow(w)
	if h.refused++; h.refused >= refusals {
		m.giveBack(h, back.Reason)
	}
}

func (m *Master) retracted(w *worker, answer RetractAnswer) {
	h := w.jobs[answer.Task]
	if h == nil || h.lease != answer.Lease {
		return
	}
	h.retracting = false
	if answer.Retracted && h.phase == assigned {
		m.backToReady(h, false)
	}
}
