package matcher

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

func TestRuns(t *testing.T) {
	const s = time.Second
	one := &task.Task{}
	limited := &task.Task{Walltime: 9 * s}
	var runs Runs
	expect := func(of *task.Task, ran, left, expected time.Duration) {
		t.Helper()
		if got := runs.Left(of, ran); got != left {
			t.Errorf("after %s %s are left, want %s", ran, got, left)
		}
		if got := runs.Expected(of); got != expected {
			t.Errorf("%s are expected, want %s", got, expected)
		}
	}
	for range runsKnown - 1 {
		runs.Learn(one.Class(), 7*s)
	}
	expect(one, 10*s, UnknownRun-10*s, UnknownRun) // too few to know
	runs.Learn(one.Class(), 12*s)
	expect(one, 0, 8*s, 12*s) // the mean of 7, 7, 7, 7 and 12
	expect(one, 7*s, 5*s, 12*s)
	expect(one, 12*s, 0, 12*s)
	expect(one, 15*s, 3*s, 12*s) // longer than all: as much longer again
	runs.Learn(limited.Class(), 7*s)
	expect(limited, 0, 7*time.Second+5*s/6, 9*s)
	for range runsKept {
		runs.Learn(one.Class(), 2*s)
	}
	expect(one, 0, 2*s, 2*s) // what was long ago does not count
}
