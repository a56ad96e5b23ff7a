package worker

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// rest keeps a pilot that fails whatever it is given from draining the queue:
// after failures of its own with several tasks in a row it takes no work for a
// while, longer each time, until one succeeds.
type rest struct {
	failed map[task.ID]bool // through this pilot, since the last success
	rests  int              // in a row
	until  time.Time        // zero: it works
	why    string
}

// account draws the consequences of an attempt's end.
func (w *Worker) account(outcome *task.Outcome) {
	r := &w.rest
	switch {
	case outcome.OK:
		r.failed, r.rests = nil, 0
	case outcome.Failure == task.PilotFailed && !w.draining:
		if r.failed == nil {
			r.failed = make(map[task.ID]bool)
		}
		r.failed[outcome.Attempt.Task] = true
		if len(r.failed) < w.config.RestAfter {
			return
		}
		pause := min(w.config.RestLeast<<min(r.rests, 20), w.config.RestMost)
		r.until, r.failed = w.now.Add(pause), nil
		r.rests++
		r.why = fmt.Sprintf("%d tasks in a row failed through this pilot, it rests for %s; the last: %s", w.config.RestAfter, pause, outcome.Reason)
		w.restate()
	}
}

// passRest ends a rest.
func (w *Worker) passRest() {
	if r := &w.rest; !r.until.IsZero() && !w.now.Before(r.until) {
		r.until, r.why = time.Time{}, ""
		w.restate()
	}
}

// restate tells the master when the reason has changed for which no new work
// is taken, if there is one.
func (w *Worker) restate() {
	if w.draining {
		return
	}
	stopped := cmp.Or(w.unfit, w.declines, w.rest.why)
	if w.checking {
		stopped = "the self-check is not over"
	}
	if stopped != w.stopped {
		w.stopped = stopped
		w.soon(0)
	}
}

// toldStopped is what others are told of that: not that a pilot begins.
func (w *Worker) toldStopped() string {
	if w.checking && !w.draining {
		return ""
	}
	return w.stopped
}
