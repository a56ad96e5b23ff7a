package worker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// A node that fails everything at once must not drain the queue.
func TestAPilotThatFailsEverythingPauses(t *testing.T) {
	b := newWorkerBench(t)
	serial := uint64(0)
	fails := func(name string, kind task.FailureKind) (said []message.Report) {
		serial++
		staging := all[worker.StageIn](b.do(worker.FromMaster{From: "m1", Message: message.Assign{Term: firstTerm, Serial: serial, Tasks: given(name)}}))
		if len(staging) != 1 {
			t.Fatalf("%s is not taken", name)
		}
		said = told[message.Report](b.do(worker.StageFailed{Attempt: staging[0].Attempt, Failure: kind, Reason: "no space"}))
		return append(said, told[message.Report](b.after(time.Second, message.Tick{}))...)
	}
	pauses := func(reports []message.Report) bool { return len(reports) > 0 && reports[len(reports)-1].Draining }
	for range 5 { // one bad task does not make a bad node
		if pauses(fails("same", task.PilotFailed)) {
			t.Fatal("it pauses because of one task")
		}
	}
	attempt := b.running("fine", serial+1)
	serial++
	outcome := task.Outcome{OK: true, Delay: -1}
	b.do(worker.PayloadEnded{Attempt: attempt, Outcome: outcome})
	b.do(worker.Published{Attempt: attempt, Outcome: outcome})
	for _, name := range []string{"a", "b"} {
		if pauses(fails(name, task.PilotFailed)) {
			t.Fatal("it pauses after two failures")
		}
	}
	for _, name := range []string{"c", "d", "e"} {
		if pauses(fails(name, task.InputMissing)) {
			t.Fatal("it pauses because of failures that are not its own")
		}
	}
	if !pauses(fails("f", task.PilotFailed)) {
		t.Fatal("it goes on after three failures in a row")
	}
	serial++
	answer := b.do(worker.FromMaster{From: "m1", Message: message.Assign{Term: firstTerm, Serial: serial, Tasks: given("g")}})
	if len(all[worker.StageIn](answer)) > 0 {
		t.Error("it takes work while it pauses")
	}
	returned := false
	for _, report := range append(told[message.Report](answer), told[message.Report](b.after(time.Second, message.Tick{}))...) {
		for _, r := range report.Returned {
			returned = returned || strings.Contains(r.Reason, "no space")
		}
	}
	if !returned {
		t.Error("the task does not come back with the reason")
	}
	b.do(worker.PilotChanged{Lifetime: time.Hour}) // the node itself sees nothing wrong
	if reports := told[message.Report](b.after(time.Minute, message.Tick{})); len(reports) == 0 || reports[len(reports)-1].Draining {
		t.Errorf("it does not come back after its pause: %+v", reports)
	}
	for _, name := range []string{"h", "i", "j"} {
		fails(name, task.PilotFailed)
	}
	if reports := told[message.Report](b.after(40*time.Second, message.Tick{})); len(reports) > 0 && !reports[len(reports)-1].Draining {
		t.Error("the second pause is no longer than the first")
	}
}
