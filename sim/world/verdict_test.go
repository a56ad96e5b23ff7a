package world

import (
	"testing"
	"time"
)

// What ends a judge that waits for rest is a finding of the run.
func TestWhatEndsAJudgeIsFound(t *testing.T) {
	found, plan := &findings{}, DrawPlan(1, false)
	s := newStorm(found, &plan)
	func() {
		defer func() {
			if ended := recover(); ended != (givenUp{}) {
				t.Errorf("the judge ended with %v", ended)
			}
		}()
		s.comesToRest(func() { s.judge.Fatalf("no view of the queue") })
	}()
	if len(found.wrong) != 1 {
		t.Errorf("found %q", found.wrong)
	}
}

// A time in which a pilot has come is not quiet, not even when it came at its end.
func TestWhatIsQuiet(t *testing.T) {
	t.Parallel()
	plan := DrawPlan(1, false)
	s := newStorm(t, &plan)
	s.run(time.Second)
	began := s.now()
	s.after(quietTime, func() { s.world.startOne(s.world.sites[0], 1, nil) })
	s.quietly()
	if took := s.now() - began; took != 2*quietTime {
		t.Errorf("quiet after %s", took)
	}
}
