package worker

import (
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

// passReport sends the master the news when they are due.
func (w *Worker) passReport() {
	if !w.passed(w.due) {
		return
	}
	for more := true; more; {
		report := w.news
		w.reports++
		report.Number, report.Seen, report.Cache = w.reports, w.mastership.seen, w.cache
		report.Draining, report.Stopped, report.Stays = w.readiness.stopped != "", w.readiness.told(), !w.readiness.draining
		n := message.SplitOutcomes(report.Outcomes, reportOutcomes)
		w.news = message.Report{}
		if more = n < len(report.Outcomes); more {
			w.news.Outcomes = report.Outcomes[n:]
		}
		report.Outcomes = report.Outcomes[:n]
		w.act(message.Tell{To: w.mastership.peer, Message: report})
	}
	w.due = time.Time{}
}

// state is this pilot's whole state, with the hand-outs that it keeps if they are
// wanted, and with at most so many bytes of outcomes: of the others it says that
// they follow, and sends them in a report.
func (w *Worker) state(bytes int, copies bool) *message.State {
	outcomes := w.unjudged.pendingOutcomes()
	n := message.SplitOutcomes(outcomes, bytes)
	w.reports++
	s := &message.State{Pilot: w.self, Peer: w.peer, List: w.row.evaluator.Version(), Status: message.Status{
		Number: w.reports, Seen: w.mastership.seen, Draining: w.readiness.stopped != "", Stopped: w.readiness.told(), Stays: !w.readiness.draining, Cache: w.cache,
		Outcomes: outcomes[:n], Stored: w.unjudged.pendingStored(), Gone: inOrder(w.soles.gone, task.OutputID.Compare),
	}}
	for _, a := range w.attempts.which(all) {
		s.InHand = append(s.InHand, message.InHand{
			Attempt: a.id, Number: a.Number, Need: a.Task.Resources,
			Started: a.phase >= running, Ended: a.phase == publishing,
			Prefill: !a.holding && a.phase < running,
		})
	}
	for _, outcome := range outcomes[n:] {
		s.InHand = append(s.InHand, message.InHand{Attempt: outcome.Attempt, Number: outcome.Number, Started: true, Ended: true})
	}
	if n < len(outcomes) && w.mastership.inOffice {
		w.news.Outcomes = outcomes[n:]
		w.soon(0)
	}
	if copies {
		w.handOuts.tell(w.now, s)
	}
	return s
}
