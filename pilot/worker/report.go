package worker

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// Outcomes carry up to 128 KiB of logs each, so every message takes a bounded
// amount of them, in bytes, and the rest follows in further ones. An answer
// to a census travels with those of other pilots and takes little.
const (
	reportOutcomes = 4 << 20
	directOutcomes = 1 << 20
	censusOutcomes = 32 << 10
)

// passReport sends the news when they are due: to the master, or outcomes to
// the queue while the site has no master.
func (w *Worker) passReport() {
	if w.master == "" {
		if !w.delivery.due.IsZero() && !w.now.Before(w.delivery.due) {
			w.deliverToQueue()
			w.delivery.due = w.now.Add(message.Jitter(w.self.ID, w.now, w.delivery.pause))
		}
		return
	}
	if w.due.IsZero() || w.now.Before(w.due) {
		return
	}
	w.due = time.Time{}
	for {
		report := w.report
		w.said++
		report.Number = w.said
		report.Seen, report.Cache = w.seen, w.cache
		report.Draining, report.Stopped = w.stopped != "", w.toldStopped()
		n := message.SplitOutcomes(report.Outcomes, reportOutcomes)
		w.report = message.Report{Outcomes: report.Outcomes[n:]}
		report.Outcomes = report.Outcomes[:n]
		w.tellMaster(report)
		if len(w.report.Outcomes) == 0 {
			w.report.Outcomes = nil
			return
		}
	}
}

// mostPatient is the longest time between two repeats.
const mostPatient = 10 * time.Minute

// expectAnswer has what the master was told repeated when no answer comes: a
// message can be lost with a connection. Any answer begins the wait anew.
func (w *Worker) expectAnswer() {
	w.patient = w.config.RepeatAfter
	w.repeat = w.now.Add(w.patient)
}

// repeatDue is when what is not acknowledged is told again; zero is never.
func (w *Worker) repeatDue() time.Time {
	if w.master == "" || len(w.outcomes)+len(w.stored) == 0 {
		return time.Time{}
	}
	return w.repeat
}

// passRepeat tells the master again what it has not acknowledged, ever more
// rarely: the queue may be away.
func (w *Worker) passRepeat() {
	if due := w.repeatDue(); due.IsZero() || w.now.Before(due) {
		return
	}
	w.patient = min(2*w.patient, mostPatient)
	w.repeat = w.now.Add(w.patient)
	w.report.Outcomes, w.report.Stored = w.pendingOutcomes(), w.pendingStored()
	w.soon(0)
}

// delivery is how outcomes go to the queue while no master takes them.
type delivery struct {
	due   time.Time     // zero: not at all
	last  uint64        // counter of the last attempt that the queue was told of
	pause time.Duration // at the most, until the next one
}

// deliverToQueue takes outcomes to the queue while no master does: the next ones
// each time, since what waits for others must not stand in their way. When all
// have been told it begins anew, ever more rarely until there is a verdict.
func (w *Worker) deliverToQueue() {
	if len(w.outcomes) == 0 && len(w.stored) == 0 {
		return
	}
	d, outcomes := &w.delivery, w.pendingOutcomes()
	if next := slices.IndexFunc(outcomes, func(o task.Outcome) bool { return o.Attempt.Counter > d.last }); next > 0 {
		outcomes = outcomes[next:]
	} else if next < 0 {
		d.pause = min(2*d.pause, mostPatient)
	}
	outcomes = outcomes[:message.SplitOutcomes(outcomes, directOutcomes)]
	if len(outcomes) > 0 {
		d.last = outcomes[len(outcomes)-1].Attempt.Counter
	}
	w.act(DeliverToQueue{Outcomes: outcomes, Stored: w.pendingStored()})
}

// state is this pilot's whole state, with at most so many bytes of outcomes:
// of the others it says that they follow, and sends them in a report.
func (w *Worker) state(bytes int) message.State {
	outcomes := w.pendingOutcomes()
	n := message.SplitOutcomes(outcomes, bytes)
	w.said++
	s := message.State{
		Number: w.said, Pilot: w.self, Peer: w.peer, Draining: w.stopped != "", Stopped: w.toldStopped(), Seen: w.seen, List: w.evaluator.Version(),
		Outcomes: outcomes[:n], Stored: w.pendingStored(), Cache: w.cache,
	}
	for _, id := range slices.SortedFunc(maps.Keys(w.gone), task.OutputID.Compare) {
		s.Gone = append(s.Gone, w.gone[id])
	}
	for _, job := range w.inOrder() {
		s.InHand = append(s.InHand, message.InHand{
			Attempt: job.attempt, Number: job.Number, Need: job.Task.Resources,
			Started: job.phase >= running, Ended: job.phase == publishing,
			Prefill: !job.holding && job.phase < running,
		})
	}
	for _, outcome := range outcomes[n:] {
		s.InHand = append(s.InHand, message.InHand{Attempt: outcome.Attempt, Number: outcome.Number, Started: true, Ended: true})
	}
	if n < len(outcomes) && w.master != "" {
		w.report.Outcomes = outcomes[n:]
		w.soon(0)
	}
	return s
}

func (w *Worker) pendingOutcomes() []task.Outcome {
	pending := make([]task.Outcome, 0, len(w.outcomes))
	for _, outcome := range w.outcomes {
		pending = append(pending, *outcome)
	}
	slices.SortFunc(pending, func(a, b task.Outcome) int { return cmp.Compare(a.Attempt.Counter, b.Attempt.Counter) })
	return pending
}

func (w *Worker) pendingStored() []task.Stored {
	pending := make([]task.Stored, 0, len(w.stored))
	for _, output := range slices.SortedFunc(maps.Keys(w.stored), task.OutputID.Compare) {
		pending = append(pending, w.stored[output])
	}
	return pending
}
