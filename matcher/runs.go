package matcher

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// UnknownRun is how long a task counts until enough of its class have ended.
const UnknownRun = time.Minute

const (
	// runsKnown is how many outcomes make the run time of a class known.
	runsKnown = 5
	// mostRuns is of how many classes run times are kept: those that ended last.
	mostRuns = 256
)

// Runs is how long the tasks of each class run. The zero value knows nothing.
type Runs struct {
	byClass map[task.Class]*classRun
	learned uint64
}

type classRun struct {
	usual time.Duration
	count int
	last  uint64 // by the number of what was learned
}

// Learn takes in a run: a long one at once, shorter ones slowly, as it costs
// more to expect a task to end too soon than too late.
func (r *Runs) Learn(class task.Class, run time.Duration) {
	known := r.byClass[class]
	if known == nil {
		if r.byClass == nil {
			r.byClass = make(map[task.Class]*classRun)
		}
		r.makeRoom()
		known = &classRun{}
		r.byClass[class] = known
	}
	r.learned++
	known.last = r.learned
	known.count = min(known.count+1, runsKnown)
	if run >= known.usual {
		known.usual = run
	} else {
		known.usual -= (known.usual - run) / 16
	}
}

// makeRoom forgets the class of which nothing was learned for longest, when there
// are many.
func (r *Runs) makeRoom() {
	if len(r.byClass) < mostRuns {
		return
	}
	var oldest task.Class
	last := r.learned + 1
	for class, known := range r.byClass {
		if known.last < last {
			oldest, last = class, known.last
		}
	}
	delete(r.byClass, oldest)
}

// Expected is how long a task is expected to run: as its class does, and never
// beyond its walltime.
func (r *Runs) Expected(t *task.Task) time.Duration {
	expected := UnknownRun
	if known := r.byClass[t.Class()]; known != nil && known.count >= runsKnown {
		expected = known.usual
	}
	if t.Walltime > 0 {
		expected = min(expected, t.Walltime)
	}
	return expected
}
