package pilot_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot"
	"github.com/pilotage-grid/pilotage/task"
)

// A node that fails everything at once must not drain the queue.
func TestAPilotThatFailsEverythingRests(t *testing.T) {
	b := newWorkerBench(t)
	serial := uint64(0)
	fails := func(name string, kind task.FailureKind) (said []pilot.Report) {
		serial++
		staging := all[pilot.StageIn](b.do(pilot.FromMaster{From: "m1", Message: pilot.Assign{Term: firstTerm, Serial: serial, Tasks: given(name)}}))
		if len(staging) != 1 {
			t.Fatalf("%s is not taken", name)
		}
		said = told[pilot.Report](b.do(pilot.StageFailed{Attempt: staging[0].Attempt, Failure: kind, Reason: "no space"}))
		return append(said, told[pilot.Report](b.after(time.Second, pilot.Tick{}))...)
	}
	rests := func(reports []pilot.Report) bool { return len(reports) > 0 && reports[len(reports)-1].Draining }
	for range 5 { // one bad task does not make a bad node
		if rests(fails("same", task.PilotFailed)) {
			t.Fatal("it rests because of one task")
		}
	}
	attempt := b.running("fine", serial+1)
	serial++
	outcome := task.Outcome{OK: true, Delay: -1}
	b.do(pilot.PayloadEnded{Attempt: attempt, Outcome: outcome})
	b.do(pilot.Published{Attempt: attempt, Outcome: outcome})
	for _, name := range []string{"a", "b"} {
		if rests(fails(name, task.PilotFailed)) {
			t.Fatal("it rests after two failures")
		}
	}
	for _, name := range []string{"c", "d", "e"} {
		if rests(fails(name, task.InputMissing)) {
			t.Fatal("it rests because of failures that are not its own")
		}
	}
	if !rests(fails("f", task.PilotFailed)) {
		t.Fatal("it goes on after three failures in a row")
	}
	serial++
	answer := b.do(pilot.FromMaster{From: "m1", Message: pilot.Assign{Term: firstTerm, Serial: serial, Tasks: given("g")}})
	if len(all[pilot.StageIn](answer)) > 0 {
		t.Error("it takes work while it rests")
	}
	returned := false
	for _, report := range append(told[pilot.Report](answer), told[pilot.Report](b.after(time.Second, pilot.Tick{}))...) {
		for _, r := range report.Returned {
			returned = returned || strings.Contains(r.Reason, "no space")
		}
	}
	if !returned {
		t.Error("the task does not come back with the reason")
	}
	b.do(pilot.PilotChanged{Lifetime: time.Hour}) // the node itself sees nothing wrong
	if reports := told[pilot.Report](b.after(time.Minute, pilot.Tick{})); len(reports) == 0 || reports[len(reports)-1].Draining {
		t.Errorf("it does not come back after its rest: %+v", reports)
	}
	for _, name := range []string{"h", "i", "j"} {
		fails(name, task.PilotFailed)
	}
	if reports := told[pilot.Report](b.after(40*time.Second, pilot.Tick{})); len(reports) > 0 && !reports[len(reports)-1].Draining {
		t.Error("the second rest is no longer than the first")
	}
}
