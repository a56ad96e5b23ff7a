package worker

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// assigned takes a task in hand, or gives it back with the reason.
func (w *Worker) assigned(given message.Assignment) {
	if w.attempts.find(given.Task.ID, given.Lease) != nil {
		return // said twice
	}
	if w.readiness.stopped != "" {
		w.handBack(given, "the pilot takes no more work: "+w.readiness.stopped)
		return
	}
	if verdict := w.row.evaluator.Check(&given.Task, message.ListFiles(given.Files)); !verdict.Feasible {
		w.handBack(given, "refused: "+verdict.FailedClause)
		return
	}
	w.attempts.take(&w.step, w.self.ID, given)
}

// stagedIn has an attempt wait for its slot. From now on its files count as read here.
func (w *Worker) stagedIn(e StagedIn) {
	if a := w.attempts.stagedIn(&w.step, e); a != nil {
		w.row.changed(&w.step, w.row.evaluator.Referenced(message.ListFiles(a.Files)), w.config.ReportDelay)
	}
}

// stageFailed ends an attempt whose inputs cannot be read. A file without replica
// may be lost: the master looks for it; everything else is a failed attempt.
func (w *Worker) stageFailed(e StageFailed) {
	a := w.attempts.in(staging, e.Attempt)
	switch {
	case a == nil:
	case e.NoRoom && a.beside:
		w.attempts.crowdOut(&w.step, a)
	case len(e.Lost) > 0:
		w.attempts.drop(&w.step, a)
		w.handBack(a.Assignment, e.Reason, e.Lost...)
	default:
		w.attempts.drop(&w.step, a)
		w.finish(a, task.Outcome{Failure: e.Failure, Reason: e.Reason, ExitCode: -1})
	}
}

// payloadEnded frees the slot at once; outputs are published beside the next
// payload.
func (w *Worker) payloadEnded(e PayloadEnded) {
	a := w.attempts.in(running, e.Attempt)
	if a == nil {
		return
	}
	w.attempts.slots.release(a)
	w.attempts.slots.ended(e.Outcome.Ended)
	outcome := e.Outcome
	if a.killed != "" {
		outcome.OK, outcome.Failure, outcome.Reason = false, task.KilledByUser, a.killed
	}
	if !outcome.OK || len(a.Task.Outputs) == 0 {
		w.attempts.drop(&w.step, a)
		w.finish(a, outcome)
		return
	}
	a.phase = publishing
	w.news.Ended = append(w.news.Ended, a.id)
	w.soon(0)
	w.act(Publish{Attempt: a.id, Assignment: a.Assignment, Outcome: outcome})
}

// published ends an attempt whose outputs are in the cache.
func (w *Worker) published(e Published) {
	a := w.attempts.in(publishing, e.Attempt)
	if a == nil {
		return
	}
	w.attempts.forget(a)
	outcome := e.Outcome
	outcome.Outputs = e.Outputs
	if e.Failure != "" {
		outcome.OK, outcome.Failure, outcome.Reason, outcome.Outputs = false, task.PilotFailed, e.Failure, nil
	}
	w.finish(a, outcome)
	var made []message.Output
	for _, output := range outcome.Outputs {
		made = append(made, message.Output{Attempt: a.id, Produced: output})
	}
	w.attempts.supply(&w.step, w.self.Site, made)
	w.soles.keep(&w.step, made...)
}

// finish makes the outcome of an attempt known.
func (w *Worker) finish(a *attempt, outcome task.Outcome) {
	outcome.Attempt, outcome.Number, outcome.Site = a.id, a.Number, w.self.Site
	outcome.Reads, outcome.StageIn, outcome.Delay = a.reads, a.stageIn, a.delay
	w.unjudged.expectFirst(&w.step)
	w.unjudged.outcomes[a.id] = outcome
	w.readiness.account(&w.step, &outcome)
	w.attempts.judge(&w.step, &outcome)
	w.news.Outcomes = append(w.news.Outcomes, outcome)
	w.soon(w.patience(&outcome))
	if !w.mastership.inOffice && w.unjudged.delivery.due.IsZero() {
		w.unjudged.deliverAfter(&w.step)
	}
}

// patience is how long an outcome may wait for others: not if tasks may wait
// for its outputs, nor if the slots may soon wait for the master.
func (w *Worker) patience(outcome *task.Outcome) time.Duration {
	prefilled := w.attempts.count(func(a *attempt) bool { return !a.holding && a.phase <= staged })
	if !outcome.OK || len(outcome.Outputs) > 0 || prefilled <= 2*w.self.Slots {
		return 0
	}
	return w.config.ReportDelay / 4
}

// uploaded takes in that the storage element has outputs: nobody needs to keep
// them here.
func (w *Worker) uploaded(copies ...task.Stored) {
	w.unjudged.expectFirst(&w.step)
	for _, stored := range copies {
		w.unjudged.hasURL(stored)
		w.soles.letGo(&w.step, stored.Output())
	}
	w.news.Stored = append(w.news.Stored, copies...)
	w.attempts.roomier = true
	w.later()
}

// tookOver tells the master whether a file was taken over, or is stored.
func (w *Worker) tookOver(e Kept) {
	output := message.Output{Attempt: e.File.Producer, Produced: task.Produced{
		LFN: e.File.LFN, Size: e.File.Size, Digest: e.File.Digest, Exec: e.File.Exec,
	}}
	switch {
	case e.URL != "":
		w.uploaded(task.Stored{LFN: output.LFN, Attempt: output.Attempt, URL: e.URL, Size: output.Size, Digest: output.Digest})
	case e.Failure == "":
		w.soles.keep(&w.step, output)
	}
	w.kept(message.KeptAnswer{Output: output.ID(), Failure: e.Failure, Away: e.Away})
}

// lossWaits tells whether an output is lost of which the queue has not heard yet: it
// takes word of the loss only when it has taken the outcome.
func (w *Worker) lossWaits(id task.OutputID) bool {
	_, gone := w.soles.gone[id]
	return gone && w.unjudged.has(id.Attempt)
}

// acknowledge forgets what the queue has accepted, or judged otherwise: every
// verdict is final. What an attempt has made that does not count need not be
// kept.
func (w *Worker) acknowledge(m message.Acks) {
	for _, ack := range m.Acks {
		if w.unjudged.has(ack.Attempt) {
			delete(w.unjudged.outcomes, ack.Attempt)
			w.act(DropLogs{Attempt: ack.Attempt})
		}
		if ack.Verdict != task.AckAccepted {
			w.soles.forsake(&w.step, ack.Attempt)
		} else {
			w.soles.lostBefore(&w.step, ack.Attempt)
		}
	}
	for _, output := range m.Stored {
		delete(w.unjudged.stored, output)
	}
	w.soles.letGo(&w.step, slices.DeleteFunc(slices.Clone(m.Relieved), w.lossWaits)...)
	w.unjudged.expectAnswer(&w.step)
}
