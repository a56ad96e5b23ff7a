package worker_test

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// maker is a worker of a site with a storage element whose attempt has made x.
func maker(t *testing.T) (b *bench, made task.OutputID) {
	b = newWorkerBench(t)
	b.do(worker.SiteChanged{Settings: task.SiteSettings{Site: siteName, SE: "file:///se"}})
	attempt := b.running("a", 1)
	outcome := task.Outcome{OK: true, Delay: -1}
	b.do(worker.PayloadEnded{Attempt: attempt, Outcome: outcome})
	actions := b.do(worker.Published{Attempt: attempt, Outcome: outcome, Outputs: []task.Produced{{LFN: name("x"), Digest: digestOf("x")}}})
	if uploads := all[worker.Upload](actions); len(uploads) != 1 {
		t.Fatalf("an output is uploaded %d times", len(uploads))
	}
	return b, task.OutputID{Attempt: attempt, LFN: name("x")}
}

func (b *bench) verdict(attempt task.AttemptID, verdict task.AckVerdict) []message.Action {
	return b.do(worker.FromMaster{From: "m1", Message: message.Acks{Acks: []task.Ack{{Attempt: attempt, Verdict: verdict}}}})
}

// Every verdict but acceptance ends the keeping of what the attempt has made;
// a pilot that leaves does not wait for it.
func TestLosersAreLetGo(t *testing.T) {
	for _, verdict := range []task.AckVerdict{task.AckDuplicate, task.AckStale, task.AckUnknown} {
		b, made := maker(t)
		actions := b.verdict(made.Attempt, verdict)
		if gone := all[worker.LetGo](actions); len(gone) != 1 || gone[0].Output.ID() != made {
			t.Errorf("after verdict %d the pilot lets go of %+v", verdict, gone)
		}
		if drained := all[worker.Drained](b.do(worker.Drain{Reason: "told to stop"})); len(drained) != 1 {
			t.Errorf("after verdict %d the pilot does not go", verdict)
		}
	}
	b, made := maker(t)
	if gone := all[worker.LetGo](b.verdict(made.Attempt, task.AckAccepted)); len(gone) > 0 {
		t.Errorf("what counts is let go: %+v", gone)
	}
	if gone := all[worker.LetGo](b.do(worker.Uploaded{Stored: []task.Stored{{LFN: name("x"), Attempt: made.Attempt, URL: "file:///se/x"}}})); len(gone) != 1 {
		t.Errorf("what the storage element has is kept: %+v", gone)
	}
}

// Masters are told of a copy that has left the cache: the one in office at once
// and once, later ones with the state. Nobody hears of one that was not to be
// kept, or that does not count.
func TestLostCopiesAreToldToMasters(t *testing.T) {
	gone := func(b *bench, actions []message.Action) (files []task.File) {
		for _, report := range told[message.Report](append(actions, b.after(time.Second, message.Tick{})...)) {
			files = append(files, report.Gone...)
		}
		return files
	}
	inState := func(b *bench) int {
		states := told[message.State](b.do(worker.FromMaster{From: "m1", Message: message.Want{Term: firstTerm, State: true}}))
		if len(states) != 1 {
			t.Fatalf("asked for its state the worker tells %d", len(states))
		}
		return len(states[0].Gone)
	}
	b, made := maker(t)
	b.verdict(made.Attempt, task.AckAccepted)
	if n := inState(b); n != 0 {
		t.Errorf("what is there is said to be gone")
	}
	if files := gone(b, b.do(worker.NotUploaded{Output: made})); len(files) != 1 || files[0].Producer != made.Attempt || files[0].Digest != digestOf("x") {
		t.Errorf("the master hears %+v", files)
	}
	if files := gone(b, b.do(worker.NotUploaded{Output: made})); len(files) > 0 {
		t.Errorf("it hears of it again: %+v", files)
	}
	if n := inState(b); n != 1 {
		t.Errorf("the state tells of %d lost copies, want 1", n)
	}
	b, made = maker(t)
	gone(b, b.do(worker.NotUploaded{Output: made}))
	b.verdict(made.Attempt, task.AckDuplicate)
	if n := inState(b); n != 0 {
		t.Error("the state tells of what does not count")
	}
}

// The queue takes word of a lost copy only when it has the outcome. What was lost
// before that stays lost for later masters, and is told again with the verdict.
func TestACopyLostBeforeTheVerdictIsToldAgain(t *testing.T) {
	relieve := func(b *bench, made task.OutputID) {
		b.do(worker.FromMaster{From: "m1", Message: message.Acks{Relieved: []task.OutputID{made}}})
	}
	inState := func(b *bench) int {
		return len(told[message.State](b.do(worker.FromMaster{From: "m1", Message: message.Want{Term: firstTerm, State: true}}))[0].Gone)
	}
	b, made := maker(t)
	b.do(worker.NotUploaded{Output: made})
	b.after(time.Second, message.Tick{})
	relieve(b, made)
	if n := inState(b); n != 1 {
		t.Errorf("of a copy lost before the verdict another master hears %d times", n)
	}
	var files []task.File
	for _, report := range told[message.Report](append(b.verdict(made.Attempt, task.AckAccepted), b.after(time.Second, message.Tick{})...)) {
		files = append(files, report.Gone...)
	}
	if len(files) != 1 || files[0].Producer != made.Attempt {
		t.Errorf("after the verdict the master hears %+v", files)
	}
	relieve(b, made)
	if n := inState(b); n != 0 {
		t.Error("a copy that was looked for after the verdict is still said to be gone")
	}
}

// A storage element that a live site is given gets what was kept without it,
// once.
func TestNewStorageGetsWhatWasKept(t *testing.T) {
	b, made := maker(t)
	b.do(worker.SiteChanged{Settings: task.SiteSettings{Site: siteName}})
	given := worker.SiteChanged{Settings: task.SiteSettings{Site: siteName, SE: "file:///other"}}
	if uploads := all[worker.Upload](b.do(given)); len(uploads) != 1 || uploads[0].Output.ID() != made {
		t.Errorf("the new storage element gets %+v", uploads)
	}
	if uploads := all[worker.Upload](b.do(given)); len(uploads) > 0 {
		t.Errorf("settings told again have %+v uploaded again", uploads)
	}
}

// What an earlier pilot has left is uploaded without being asked for.
func TestRecoveredOutputsAreUploaded(t *testing.T) {
	b := newWorkerBench(t)
	left := message.Output{
		Attempt:  task.AttemptID{Task: id("old"), Generation: 1, Lease: 3, Pilot: "p0", Counter: 9},
		Produced: task.Produced{LFN: name("x"), Digest: digestOf("x"), Size: 5},
	}
	uploads := all[worker.Upload](b.do(worker.Recovered{Outputs: []message.Output{left}}))
	if len(uploads) != 1 || uploads[0].Output != left {
		t.Fatalf("the pilot uploads %+v", uploads)
	}
	stored := task.Stored{LFN: name("x"), Attempt: left.Attempt, URL: "file:///se/x", Size: 5, Digest: left.Digest}
	actions := b.do(worker.Uploaded{Stored: []task.Stored{stored}})
	actions = append(actions, b.after(time.Second, message.Tick{})...)
	if reports := told[message.Report](actions); len(reports) != 1 || len(reports[0].Stored) != 1 || reports[0].Stored[0] != stored {
		t.Errorf("the master hears %+v", reports)
	}
	if gone := all[worker.LetGo](actions); len(gone) != 1 {
		t.Errorf("it lets go of %+v", gone)
	}
}

// A leaving pilot asks for another keeper of what is in trouble at once, of
// the rest after half of its time, again while nobody answers, and of a new
// master at once.
func TestALeavingPilotAsksForKeepers(t *testing.T) {
	b, made := maker(t)
	b.do(worker.Drain{Reason: "told to stop", Within: 20 * time.Second})
	asked := func(actions []message.Action) int {
		n := 0
		for _, report := range told[message.Report](actions) {
			n += len(report.Leaves)
		}
		return n
	}
	if n := asked(b.do(worker.UploadFailed{Output: made})); n > 0 {
		t.Fatal("it asks before the queue has judged the attempt")
	}
	if n := asked(b.verdict(made.Attempt, task.AckAccepted)); n != 1 {
		t.Fatalf("it asks %d times", n)
	}
	if n := asked(b.after(time.Second, message.Tick{})); n > 0 {
		t.Error("it asks again at once")
	}
	if n := asked(b.after(5*time.Second, message.Tick{})); n != 1 {
		t.Errorf("without an answer it asks %d times", n)
	}
	if n := asked(b.do(message.MasterInOffice{Term: secondTerm, Peer: "m2"})); n != 1 {
		t.Errorf("it asks a new master %d times", n)
	}
	relieved := message.Acks{Relieved: []task.OutputID{made}}
	if actions := b.do(worker.FromMaster{From: "m2", Message: relieved}); len(all[worker.LetGo](actions)) != 1 || len(all[worker.Drained](actions)) != 1 {
		t.Errorf("relieved it does %+v", actions)
	}

	b, made = maker(t)
	b.verdict(made.Attempt, task.AckAccepted)
	if n := asked(b.do(worker.Drain{Reason: "told to stop", Within: 20 * time.Second})); n > 0 {
		t.Error("it does not give the upload time")
	}
	if n := asked(b.after(10*time.Second, message.Tick{})); n != 1 {
		t.Errorf("after half of its time it asks %d times", n)
	}
}

// Somebody who is told to keep what it keeps already says so and does nothing.
func TestAKeptFileIsNotTakenTwice(t *testing.T) {
	b := newWorkerBench(t)
	file := task.File{LFN: name("x"), Digest: digestOf("x"), Size: 5, Producer: task.AttemptID{Task: id("old"), Pilot: "p0", Counter: 9}}
	order := worker.FromMaster{From: "m1", Message: message.StoreOrder{File: file}}
	if keeps := all[worker.Keep](b.do(order)); len(keeps) != 1 || keeps[0].File.LFN != file.LFN {
		t.Fatalf("it keeps %+v", keeps)
	}
	if uploads := all[worker.Upload](b.do(worker.Kept{File: file})); len(uploads) != 1 || uploads[0].Output.Attempt != file.Producer {
		t.Fatalf("it uploads %+v", uploads)
	}
	b.after(time.Second, message.Tick{})
	actions := append(b.do(order), b.after(time.Second, message.Tick{})...)
	if len(all[worker.Keep](actions)) > 0 {
		t.Error("it takes the file again")
	}
	reports := told[message.Report](actions)
	if len(reports) != 1 || len(reports[0].Kept) != 1 || reports[0].Kept[0].Failure != "" {
		t.Errorf("the master hears %+v", reports)
	}
}
