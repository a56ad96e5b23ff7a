package world

import "testing"

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
