package worker

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// readiness is whether a pilot takes new work, and why not.
type readiness struct {
	stopped  string // why not, as the master was told; "" while it does
	draining bool   // it leaves: it takes none ever again
	checking bool   // it is not known yet whether it can
	unfit    string // what the node says of that
	declines string // what the pilot's own policy says
	failures failures
	policy   *matcher.Acceptance
}

// failures keep a pilot that fails whatever it is given from draining the queue:
// after failures of its own with several tasks in a row it takes no work for a
// while, longer each time, until one succeeds.
type failures struct {
	tasks  map[task.ID]bool // that have failed through this pilot since the last success
	pauses int              // in a row
	until  time.Time        // zero: there is no pause
	why    string
}

// observed takes what has changed about the node, and asks the pilot's own
// policy. It returns why that declines when it begins to: what does not run yet
// goes back then, what runs ends.
func (r *readiness) observed(e PilotChanged) (beginsToDecline string) {
	r.unfit, r.checking = e.Stop, e.Checking
	before := r.declines
	r.declines = ""
	if accepts, why := r.policy.Accepts(e.Conditions); !accepts && !r.checking {
		r.declines = "its own policy declines: " + why
	}
	if before != "" {
		return ""
	}
	return r.declines
}

// account draws the consequences of an attempt's end.
func (r *readiness) account(at *step, outcome *task.Outcome) {
	f := &r.failures
	if outcome.OK {
		f.tasks, f.pauses = nil, 0
	}
	if outcome.OK || outcome.Failure != task.PilotFailed || r.draining {
		return
	}
	if f.tasks == nil {
		f.tasks = make(map[task.ID]bool)
	}
	f.tasks[outcome.Attempt.Task] = true
	if len(f.tasks) < at.config.PauseAfter {
		return
	}
	pause := min(at.config.PauseLeast<<min(f.pauses, 20), at.config.PauseMost)
	f.until, f.tasks = at.now.Add(pause), nil
	f.pauses++
	f.why = fmt.Sprintf("%s in a row failed through this pilot, it pauses for %s; the last: %s", task.Counted(at.config.PauseAfter, "task"), pause, outcome.Reason)
	r.restate(at)
}

// passFailures ends a pause.
func (r *readiness) passFailures(at *step) {
	if at.passed(r.failures.until) {
		r.failures.until, r.failures.why = time.Time{}, ""
		r.restate(at)
	}
}

// restate tells the master when the reason has changed for which no new work
// is taken, if there is one.
func (r *readiness) restate(at *step) {
	if r.draining {
		return
	}
	stopped := cmp.Or(r.unfit, r.declines, r.failures.why)
	if r.checking {
		stopped = "the self-check is not over"
	}
	if stopped != r.stopped {
		r.stopped = stopped
		at.soon(0)
	}
}

// told is what others are told of why no work is taken: not that a pilot begins.
func (r *readiness) told() string {
	if r.checking && !r.draining {
		return ""
	}
	return r.stopped
}
