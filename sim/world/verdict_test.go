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

// A dead pilot that the queue has for living is found also while the queue has one for
// dead that lives: both have as many.
func TestADeadPilotIsFoundBesideOneThatCameBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 4, 1)
	pilots[3].pause()
	if !w.runUntil(10*time.Minute, func() bool { return len(w.queue.alive(s.name)) == 3 }) {
		t.Fatal("a pilot that hangs is not missed")
	}
	pilots[2].kill()
	pilots[3].resume()
	said, found := w.judge, &atOnce{Judge: w.judge}
	w.judge = found
	w.judgePilots(s)
	if w.judge = said; len(found.wrong) != 1 {
		t.Errorf("found %q, the queue has %v for living, %v live", found.wrong, w.queue.alive(s.name), s.liveIDs())
	}
	w.run(10 * time.Minute)
	w.judgePilots(s)
}
