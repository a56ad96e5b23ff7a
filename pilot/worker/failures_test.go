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

// A pilot at which a payload fails before any has ended well, or two in a row, gives back
// what it has been given early.
func TestAPilotThatIsNotProvenGivesBackWhatCameEarly(t *testing.T) {
	b := newWorkerBench(t)
	serial := uint64(0)
	assign := func(prefill bool, name string) (attempt task.AttemptID, starts bool) {
		serial++
		tasks := given(name)
		tasks[0].Prefill = prefill
		staging := all[worker.StageIn](b.do(worker.FromMaster{From: "m1", Message: message.Assign{Term: firstTerm, Serial: serial, Tasks: tasks}}))
		if len(staging) != 1 {
			t.Fatalf("%s is not taken", name)
		}
		attempt = staging[0].Attempt
		return attempt, len(all[worker.StartPayload](b.do(worker.StagedIn{Attempt: attempt}))) > 0
	}
	// ends has a payload end and tells what is started next and what is given back.
	ends := func(attempt task.AttemptID, outcome task.Outcome) (started, back int) {
		outcome.Attempt = attempt
		said := b.do(worker.PayloadEnded{Attempt: attempt, Outcome: outcome})
		if outcome.OK {
			said = append(said, b.do(worker.Published{Attempt: attempt, Outcome: outcome})...)
		}
		for _, report := range told[message.Report](said) {
			for _, answer := range report.Retracts {
				if answer.Retracted {
					back++
				}
			}
		}
		return len(all[worker.StartPayload](said)), back
	}
	assign(false, "long") // in one of the two slots
	failed := task.Outcome{Failure: task.PayloadFailed, Delay: -1}
	for _, step := range []struct {
		outcome       task.Outcome
		started, back int
	}{
		{failed, 0, 1}, // of a new pilot
		{task.Outcome{OK: true, Delay: -1}, 1, 0}, // it is proven
		{failed, 1, 0}, // one may be the task's fault
		{failed, 0, 1}, // two in a row are not
		{task.Outcome{Failure: task.InputMissing, Delay: -1}, 0, 1},
		{task.Outcome{OK: true, Delay: -1}, 1, 0},
		{task.Outcome{Failure: task.KilledByUser, Delay: -1}, 1, 0}, // says nothing of the pilot
	} {
		runs, starts := assign(false, "runs"+string(rune('a'+serial)))
		if !starts {
			t.Fatal("a task is not started on a free slot")
		}
		next, starts := assign(true, "next"+string(rune('a'+serial)))
		if starts {
			t.Fatal("a task that came early is started beside another one")
		}
		started, back := ends(runs, step.outcome)
		if started != step.started || back != step.back {
			t.Errorf("after %+v: %d started and %d given back, want %d and %d", step.outcome, started, back, step.started, step.back)
		}
		if started > 0 {
			b.do(worker.PayloadEnded{Attempt: next, Outcome: task.Outcome{Attempt: next, Failure: task.KilledByUser, Delay: -1}})
		}
	}
}
