package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// cacheChanged ranks again what reads the files and tells the master.
func (w *Worker) cacheChanged(e CacheChanged) {
	w.cache = e.Cache
	if len(e.Keys) == 0 {
		return
	}
	w.tellUpdate(w.evaluator.FilesChanged(e.Keys...), w.config.ReportDelay)
}

// tellUpdate has the master hear of a change of this pilot's row. A whole row
// that waits to be told comes before it.
func (w *Worker) tellUpdate(update matcher.RowUpdate, delay time.Duration) {
	if !update.Empty() {
		w.report.Updates = append(w.report.Updates, update)
		w.soon(delay)
	}
}

// passLive has ranks see what runs here by now (004, section II,
// micro-scheduling). A master that goes by them waits for the answer.
func (w *Worker) passLive() {
	now := matcher.Live{FreeCores: w.free.Cores, CPUBound: w.bound[task.CPUBound], IOBound: w.bound[task.IOBound]}
	if now == w.live {
		return
	}
	w.live, w.self.Live = now, now
	w.tellUpdate(w.evaluator.SetLive(now), 0)
}

// pilotChanged asks the pilot's own policy, and judges the task list again:
// load and lifetime count for requirements and ranks. The row is sent when that
// has changed an answer.
func (w *Worker) pilotChanged(e PilotChanged) {
	w.unfit, w.checking = e.Stop, e.Checking
	w.ask(e.Conditions)
	w.restate()
	before := w.evaluator.Answers()
	w.self.Load, w.self.Lifetime = e.Load, e.Lifetime
	w.evaluator.SetPilot(w.self)
	if !slices.Equal(before, w.evaluator.Answers()) {
		row := w.evaluator.Row()
		w.report.Row, w.report.Updates = &row, nil
		w.soon(w.config.ReportDelay)
	}
}

// ask has the pilot's own policy decide. When it begins to decline, what does
// not run yet goes back; what runs ends.
func (w *Worker) ask(now matcher.Conditions) {
	before := w.declines
	w.declines = ""
	if accepts, why := w.policy.Accepts(now); !accepts && !w.checking {
		w.declines = "its own policy declines: " + why
	}
	if before == "" && w.declines != "" {
		w.handBackUnstarted(w.declines)
	}
}

// drain finishes what runs, gives back what waits, and takes nothing more.
func (w *Worker) drain(reason string) {
	if w.draining {
		return
	}
	w.draining, w.stopped = true, cmp.Or(reason, "it drains")
	w.handBackUnstarted("the pilot drains: " + reason)
	w.soon(0)
}

func (w *Worker) handBackUnstarted(reason string) {
	for _, job := range w.inOrder() {
		if job.phase < running {
			w.drop(job)
			w.handBack(job.Assignment, reason, nil)
		}
	}
}
