package matcher

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// UnknownRun is how long a task counts until enough of its class have ended.
const UnknownRun = time.Minute

const (
	// runsKnown is how many outcomes make the run time of a class known, and runsKept
	// how many of the last it goes by.
	runsKnown, runsKept = 5, 16
	// mostRuns is of how many classes run times are kept: those that ended last.
	mostRuns = 256
)

// Runs is how long the tasks of each class run. The zero value knows nothing.
type Runs struct {
	byClass map[task.Class]*classRun
	learned uint64
}

type classRun struct {
	lately [runsKept]time.Duration
	count  int    // how many were learned
	last   uint64 // by the number of what was learned
}

// Learn takes in a run.
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
	known.lately[known.count%runsKept] = run
	known.count++
}

// of are the last runs of a task's class; none until it is known.
func (r *Runs) of(t *task.Task) []time.Duration {
	if known := r.byClass[t.Class()]; known != nil && known.count >= runsKnown {
		return known.lately[:min(known.count, runsKept)]
	}
	return nil
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

// Expected is how long a task is expected to run, with caution: as the longest of its
// class lately, and never beyond its walltime.
func (r *Runs) Expected(t *task.Task) time.Duration {
	expected := UnknownRun
	if lately := r.of(t); lately != nil {
		expected = slices.Max(lately)
	}
	if t.Walltime > 0 {
		expected = min(expected, t.Walltime)
	}
	return expected
}

// Left is how much longer a task runs in the mean that has run for so long: as those of
// its class lately that took longer. What takes longer than all of them is expected to
// take as much longer again: who knows, but the longer the worse.
func (r *Runs) Left(t *task.Task, ran time.Duration) time.Duration {
	var sum time.Duration
	longer := 0
	for _, run := range r.of(t) {
		if run > ran {
			sum += run - ran
			longer++
		}
	}
	if longer == 0 {
		return (r.Expected(t) - ran).Abs()
	}
	return sum / time.Duration(longer)
}
