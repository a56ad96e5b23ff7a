package worker

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// phase of an assignment at its worker.
type workPhase uint8

const (
	awaiting   workPhase = iota // waits for inputs that a payload here is making
	crowded                     // waits for room in the cache
	staging                     // inputs are being fetched
	staged                      // ready to start, waits for a slot
	running                     // payload started
	publishing                  // payload ended well, outputs go to the cache
)

// work is an assignment at its worker.
type work struct {
	attempt task.AttemptID
	message.Assignment
	phase    workPhase
	order    uint64
	ready    time.Time // since when it could have been run, as the master says
	received time.Time // and since when its inputs can be fetched
	reads    []task.Read
	stageIn  time.Duration
	delay    time.Duration
	started  time.Time
	killed   string // why it is being killed
	holding  bool   // holds a slot and resources
	beside   bool   // others have had inputs since it began to stage its own in
}

func (w *Worker) find(id task.ID, lease task.LeaseID) *work {
	for _, job := range w.work {
		if job.Task.ID == id && job.Lease == lease {
			return job
		}
	}
	return nil
}

// assigned takes a task in hand: its inputs are staged in at once, whether it
// starts now or waits for a slot, but for a successor's, which are staged in when
// the last of them is made.
func (w *Worker) assigned(a message.Assignment) {
	if w.find(a.Task.ID, a.Lease) != nil {
		return // said twice
	}
	if w.stopped != "" {
		w.handBack(a, "the pilot takes no more work: "+w.stopped, nil)
		return
	}
	if verdict := w.evaluator.Check(&a.Task, message.ListFiles(a.Files)); !verdict.Feasible {
		w.handBack(a, "refused: "+verdict.FailedClause, nil)
		return
	}
	w.counter++
	job := &work{
		Assignment: a, phase: staging, order: w.counter, ready: w.now.Add(-a.Waited), received: w.now, delay: -1,
		attempt: task.AttemptID{Task: a.Task.ID, Generation: a.Generation, Lease: a.Lease, Pilot: w.self.ID, Counter: w.counter},
	}
	w.work[job.attempt] = job
	w.tellUpdate(w.evaluator.Assigned(message.ListFiles(a.Files)), w.config.ReportDelay)
	if w.awaits(job) {
		job.Files = slices.Clone(job.Files) // it fills them in
		job.phase = awaiting
		return
	}
	w.reserve(job)
	w.stage(job)
}

// reserve gives a job a slot and its resources if they are free.
func (w *Worker) reserve(job *work) {
	if job.holding || w.slots == 0 || !w.free.Fits(job.Task.Resources) {
		return
	}
	job.holding = true
	w.slots--
	w.free = w.free.Sub(job.Task.Resources)
	w.bound[job.Task.Bound]++
}

func (w *Worker) release(job *work) {
	if !job.holding {
		return
	}
	job.holding = false
	w.slots++
	w.free = w.free.Add(job.Task.Resources)
	w.bound[job.Task.Bound]--
}

func (w *Worker) handBack(a message.Assignment, reason string, missing []task.File) {
	w.report.Returned = append(w.report.Returned, message.Handback{
		Task: a.Task.ID, Lease: a.Lease, Reason: reason, Missing: missing,
	})
	w.soon(0)
}

// drop forgets a job that will not be run.
func (w *Worker) drop(job *work) {
	w.release(job)
	if job.phase == crowded {
		w.crowd--
	}
	w.forget(job)
	w.act(Discard{Attempt: job.attempt})
}

// forget takes a job out; what it had pinned makes room.
func (w *Worker) forget(job *work) {
	delete(w.work, job.attempt)
	w.roomier = true
}

func (w *Worker) stagedIn(e StagedIn) {
	job := w.work[e.Attempt]
	if job == nil || job.phase != staging {
		return
	}
	job.phase, job.reads, job.stageIn = staged, e.Reads, w.now.Sub(job.received)
	w.roomier = true // at least this one was not too much: the next may try
}

// stageFailed ends a job whose inputs cannot be read. A file without replica
// may be lost: the master looks for it; everything else is a failed attempt.
func (w *Worker) stageFailed(e StageFailed) {
	job := w.work[e.Attempt]
	if job == nil || job.phase != staging {
		return
	}
	if e.NoRoom && job.beside {
		w.crowdOut(job)
		return
	}
	w.drop(job)
	if len(e.Lost) > 0 {
		w.handBack(job.Assignment, e.Reason, e.Lost)
		return
	}
	w.finish(job, task.Outcome{Failure: e.Failure, Reason: e.Reason, ExitCode: -1})
}

// startWhatFits starts staged jobs, oldest first; a prefilled one takes the
// place of a payload that has ended.
func (w *Worker) startWhatFits() {
	if len(w.work) == 0 || w.slots == 0 && !w.anyHeldStaged() {
		return
	}
	for _, job := range w.inOrder() {
		if job.phase == awaiting || job.phase > staged || job.killed != "" {
			continue
		}
		w.reserve(job)
		if job.phase == staged && job.holding {
			job.phase = running
			w.act(StartPayload{Attempt: job.attempt, Assignment: job.Assignment})
		}
	}
}

func (w *Worker) anyHeldStaged() bool {
	for _, job := range w.work {
		if job.holding && job.phase == staged {
			return true
		}
	}
	return false
}

func (w *Worker) payloadStarted(e PayloadStarted) {
	job := w.work[e.Attempt]
	if job == nil || job.phase != running || !job.started.IsZero() {
		return
	}
	job.started = e.At
	if n := len(w.freed); n > 0 {
		// The slot that became free last is taken first. The delay counts
		// only if the task could have run when the slot became free, or was here
		// by then: a successor's counts with the publishing that it waits for.
		free := w.freed[n-1]
		w.freed = w.freed[:n-1]
		if !job.ready.After(free) {
			job.delay = max(0, e.At.Sub(free))
		}
	}
	w.report.Starts = append(w.report.Starts, task.Start{Attempt: job.attempt, Number: job.Number, Started: e.At})
	w.soon(w.config.ReportDelay)
}

// payloadEnded frees the slot at once; outputs are published beside the next
// payload.
func (w *Worker) payloadEnded(e PayloadEnded) {
	job := w.work[e.Attempt]
	if job == nil || job.phase != running {
		return
	}
	w.release(job)
	if len(w.freed) < w.self.Slots {
		w.freed = append(w.freed, e.Outcome.Ended)
	}
	outcome := e.Outcome
	if job.killed != "" {
		outcome.OK, outcome.Failure, outcome.Reason = false, task.KilledByUser, job.killed
	}
	if !outcome.OK {
		w.forget(job)
		w.act(Discard{Attempt: job.attempt})
		w.finish(job, outcome)
		return
	}
	if len(job.Task.Outputs) == 0 {
		w.forget(job)
		w.act(Discard{Attempt: job.attempt})
		w.finish(job, outcome)
		return
	}
	job.phase = publishing
	w.report.Ended = append(w.report.Ended, job.attempt)
	w.soon(0)
	w.act(Publish{Attempt: job.attempt, Assignment: job.Assignment, Outcome: outcome})
}

// published ends an attempt whose outputs are in the cache.
func (w *Worker) published(e Published) {
	job := w.work[e.Attempt]
	if job == nil || job.phase != publishing {
		return
	}
	w.forget(job)
	outcome := e.Outcome
	outcome.Outputs = e.Outputs
	if e.Failure != "" {
		outcome.OK, outcome.Failure, outcome.Reason, outcome.Outputs = false, task.PilotFailed, e.Failure, nil
	}
	w.finish(job, outcome)
	w.supply(w.outcomes[job.attempt])
	for _, output := range outcome.Outputs {
		w.keepSole(message.Output{Attempt: job.attempt, Produced: output})
	}
}

// finish makes the outcome of an attempt known.
func (w *Worker) finish(job *work, outcome task.Outcome) {
	outcome.Attempt, outcome.Number, outcome.Site = job.attempt, job.Number, w.self.Site
	outcome.Reads, outcome.StageIn, outcome.Delay = job.reads, job.stageIn, job.delay
	if len(w.outcomes)+len(w.stored) == 0 {
		w.expectAnswer()
	}
	w.outcomes[job.attempt] = &outcome
	w.account(&outcome)
	w.report.Outcomes = append(w.report.Outcomes, outcome)
	w.soon(w.patience(&outcome))
	if w.master == "" && w.delivery.due.IsZero() {
		w.delivery = delivery{due: w.now.Add(w.config.ResendAfter), pause: w.config.ResendAfter}
	}
}

// patience is how long an outcome may wait for others: not if tasks may wait
// for its outputs, nor if the slots may soon wait for the master.
func (w *Worker) patience(outcome *task.Outcome) time.Duration {
	prefilled := 0
	for _, job := range w.work {
		if !job.holding && job.phase <= staged {
			prefilled++
		}
	}
	if !outcome.OK || len(outcome.Outputs) > 0 || prefilled <= 2*w.self.Slots {
		return 0
	}
	return w.config.ReportDelay / 4
}

func (w *Worker) uploaded(e Uploaded) {
	if len(w.outcomes)+len(w.stored) == 0 {
		w.expectAnswer()
	}
	for _, stored := range e.Stored {
		w.stored[stored.Output()] = stored
		w.letGo(stored.Output())
		if outcome := w.outcomes[stored.Attempt]; outcome != nil {
			for i := range outcome.Outputs {
				if outcome.Outputs[i].LFN == stored.LFN {
					outcome.Outputs[i].URL = stored.URL
				}
			}
		}
	}
	w.report.Stored = append(w.report.Stored, e.Stored...)
	w.roomier = true
	w.soon(w.config.ReportDelay)
}

// retract gives a prefilled task back, unless it has been started.
func (w *Worker) retract(m message.Retract) {
	job := w.find(m.Task, m.Lease)
	retracted := job != nil && job.phase < running
	if retracted {
		w.drop(job)
	}
	answer := message.RetractAnswer{Task: m.Task, Lease: m.Lease, Retracted: retracted}
	if job == nil {
		return // handed back or ended already: that news is on its way
	}
	w.report.Retracts = append(w.report.Retracts, answer)
	w.soon(0)
}

// kill ends a task. One that is being published is done: the queue judges it.
func (w *Worker) kill(m message.Kill) {
	for _, job := range w.inOrder() {
		if job.Task.ID != m.Task || m.Lease != 0 && job.Lease != m.Lease {
			continue
		}
		switch job.phase {
		case awaiting, crowded, staging, staged:
			w.drop(job)
			w.handBack(job.Assignment, m.Reason, nil)
		case running:
			job.killed = m.Reason
			w.act(KillPayload{Attempt: job.attempt})
		case publishing:
		}
	}
}
