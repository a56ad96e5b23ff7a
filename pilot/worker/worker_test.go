package worker_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// bench is one core, driven by hand.
type bench struct {
	t    *testing.T
	now  time.Time
	step func(time.Time, message.Event) []message.Action
}

func (b *bench) do(event message.Event) []message.Action { return b.step(b.now, event) }

func (b *bench) after(d time.Duration, event message.Event) []message.Action {
	b.now = b.now.Add(d)
	return b.do(event)
}

// all returns the actions of one kind.
func all[A message.Action](actions []message.Action) (found []A) {
	for _, action := range actions {
		if a, ok := action.(A); ok {
			found = append(found, a)
		}
	}
	return found
}

// told returns the messages of one kind.
func told[M message.Message](actions []message.Action) (found []M) {
	for _, tell := range all[message.Tell](actions) {
		if m, ok := tell.Message.(M); ok {
			found = append(found, m)
		}
	}
	return found
}

const siteName = task.Site("siteA")

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func id(name string) task.ID { return task.NewID("w-aaaaaaaaaa", name) }

func name(file string) task.LFN { return task.Qualify("w-aaaaaaaaaa", file) }

func digestOf(text string) task.Digest { return sha256.Sum256([]byte(text)) }

var (
	firstTerm  = task.Term{Epoch: 1, Peer: "m1"}
	secondTerm = task.Term{Epoch: 2, Peer: "m2"}
)

func newWorkerBench(t *testing.T, set ...func(*worker.Worker)) *bench {
	self := matcher.Pilot{ID: "p1", Site: siteName, Slots: 2, Resources: task.Resources{Cores: 2, Memory: task.GiB}}
	evaluator := matcher.NewEvaluator(self, func(task.FileKey) (task.Bytes, bool) { return 0, false }, matcher.NewCompiler(8))
	w := worker.New(worker.Config{}, self, "w1", evaluator)
	for _, change := range set {
		change(w)
	}
	b := &bench{t: t, now: epoch, step: w.Step}
	b.do(message.MasterInOffice{Term: firstTerm, Peer: "m1"})
	return b
}

func given(names ...string) (tasks []message.Assignment) {
	for _, name := range names {
		tasks = append(tasks, message.Assignment{
			Task: task.Task{ID: id(name), Shell: "true", Walltime: time.Hour, Resources: task.Resources{Cores: 1, Memory: task.MiB},
				Outputs: []task.Output{{LFN: "w-aaaaaaaaaa:x", Name: "x"}}},
			Lease: 7, Generation: 1, Number: 1,
		})
	}
	return tasks
}

// running has a worker run a task and returns its attempt.
func (b *bench) running(name string, serial uint64) task.AttemptID {
	b.t.Helper()
	staging := all[worker.StageIn](b.do(worker.FromMaster{From: "m1", Message: message.Assign{Term: firstTerm, Serial: serial, Tasks: given(name)}}))
	if len(staging) != 1 {
		b.t.Fatalf("%d attempts are staged in for %s", len(staging), name)
	}
	started := all[worker.StartPayload](b.do(worker.StagedIn{Attempt: staging[0].Attempt}))
	if len(started) != 1 {
		b.t.Fatalf("%d payloads are started for %s", len(started), name)
	}
	b.do(worker.PayloadStarted{Attempt: staging[0].Attempt, At: b.now})
	return staging[0].Attempt
}

// succeed ends a payload well and has its outputs published.
func (b *bench) succeed(attempt task.AttemptID, stdout string) []message.Action {
	outcome := task.Outcome{OK: true, Stdout: []byte(stdout), Delay: -1}
	b.do(worker.PayloadEnded{Attempt: attempt, Outcome: outcome})
	return b.do(worker.Published{Attempt: attempt, Outcome: outcome})
}

func TestMessagesOfATermNotHeardOfWait(t *testing.T) {
	b := newWorkerBench(t)
	early := worker.FromMaster{From: "m2", Message: message.Assign{Term: secondTerm, Serial: 1, Tasks: given("a")}}
	if staging := all[worker.StageIn](b.do(early)); len(staging) > 0 {
		t.Fatal("a task of a master who is not in office yet is taken")
	}
	if staging := all[worker.StageIn](b.do(message.MasterInOffice{Term: secondTerm, Peer: "m2"})); len(staging) != 1 {
		t.Fatalf("%d tasks are taken when the master is in office, want 1", len(staging))
	}
}

func TestMessagesOfALowerTermAreIgnored(t *testing.T) {
	b := newWorkerBench(t)
	b.do(message.MasterInOffice{Term: secondTerm, Peer: "m2"})
	late := worker.FromMaster{From: "m1", Message: message.Assign{Term: firstTerm, Serial: 9, Tasks: given("a")}}
	if actions := b.do(late); len(all[worker.StageIn](actions)) > 0 {
		t.Fatal("a task of a former master is taken")
	}
}

func TestAnAssignmentThatCountsAsLostIsNotTaken(t *testing.T) {
	b := newWorkerBench(t)
	state := told[message.State](b.do(worker.FromMaster{From: "m1", Message: message.Want{Term: firstTerm, Serial: 5, State: true}}))
	if len(state) != 1 || state[0].Seen != 5 {
		t.Fatalf("the state %+v does not tell that 5 was seen", state)
	}
	overtaken := worker.FromMaster{From: "m1", Message: message.Assign{Term: firstTerm, Serial: 4, Tasks: given("a")}}
	if len(all[worker.StageIn](b.do(overtaken))) > 0 {
		t.Fatal("the master has given that task to somebody else by now")
	}
}

func TestOutcomesAreSaidAgainToANewMaster(t *testing.T) {
	b := newWorkerBench(t)
	attempt := b.running("a", 1)
	if reports := told[message.Report](b.succeed(attempt, "")); len(reports) != 1 || len(reports[0].Outcomes) != 1 {
		t.Fatalf("the outcome is not reported: %+v", reports)
	}
	reports := told[message.Report](b.do(message.MasterInOffice{Term: secondTerm, Peer: "m2"}))
	if len(reports) != 1 || len(reports[0].Outcomes) != 1 || reports[0].Outcomes[0].Attempt != attempt {
		t.Fatalf("the new master hears %+v", reports)
	}
	b.do(worker.FromMaster{From: "m2", Message: message.Acks{Acks: []task.Ack{{Attempt: attempt, Verdict: task.AckAccepted}}}})
	third := task.Term{Epoch: 3, Peer: "m3"}
	if reports := told[message.Report](b.do(message.MasterInOffice{Term: third, Peer: "m3"})); len(reports[0].Outcomes) > 0 {
		t.Fatal("an outcome that the queue has judged is said again")
	}
}

func TestOrphansDeliverToTheQueue(t *testing.T) {
	b := newWorkerBench(t)
	attempt := b.running("a", 1)
	b.do(message.MasterInOffice{})
	b.succeed(attempt, "")
	delivered := all[worker.DeliverToQueue](b.after(5*time.Second, message.Tick{}))
	if len(delivered) != 1 || len(delivered[0].Outcomes) != 1 {
		t.Fatalf("without a master the queue gets %+v", delivered)
	}
	b.do(worker.DeliveredToQueue{Acks: []task.Ack{{Attempt: attempt, Verdict: task.AckAccepted}}})
	if again := all[worker.DeliverToQueue](b.after(5*time.Second, message.Tick{})); len(again) > 0 {
		t.Fatal("an accepted outcome is delivered again")
	}
}

// What the queue gives no verdict on does not keep it from what comes after, and
// is told again ever more rarely.
func TestOrphansDeliverAllOutcomesInTurn(t *testing.T) {
	b := newWorkerBench(t)
	const count = 4
	for i := range count {
		b.succeed(b.running(fmt.Sprint("task", i), uint64(i+1)), strings.Repeat("x", 900<<10)) // one in a delivery
	}
	b.do(message.MasterInOffice{})
	var told []string
	for range 2 * 60 * 60 {
		for _, d := range all[worker.DeliverToQueue](b.after(time.Second, message.Tick{})) {
			for _, o := range d.Outcomes {
				told = append(told, o.Attempt.Task.Name())
			}
		}
	}
	if len(told) < 2*count || len(told) > 60 {
		t.Fatalf("the queue is told %d times in two hours", len(told))
	}
	for i, name := range told {
		if want := fmt.Sprint("task", i%count); name != want {
			t.Fatalf("delivery %d brings %s, not %s", i, name, want)
		}
	}
}

// A message can be lost with a connection: what is not acknowledged is told
// again, ever more rarely.
func TestOutcomesAreRepeatedUntilTheyAreAcknowledged(t *testing.T) {
	b := newWorkerBench(t)
	attempt := b.running("a", 1)
	b.succeed(attempt, "")
	var repeats []time.Duration
	began := b.now
	for b.now.Before(began.Add(5 * time.Minute)) {
		for _, report := range told[message.Report](b.after(time.Second, message.Tick{})) {
			if len(report.Outcomes) == 1 && report.Outcomes[0].Attempt == attempt {
				repeats = append(repeats, b.now.Sub(began))
			}
		}
	}
	if len(repeats) != 3 || repeats[2]-repeats[1] <= repeats[1]-repeats[0] {
		t.Fatalf("in 5 min it is told again after %v", repeats)
	}
	b.do(worker.FromMaster{From: "m1", Message: message.Acks{Acks: []task.Ack{{Attempt: attempt, Verdict: task.AckAccepted}}}})
	for _, report := range told[message.Report](b.after(time.Hour, message.Tick{})) {
		if len(report.Outcomes) > 0 {
			t.Fatal("an acknowledged outcome is told again")
		}
	}
}

// Logs make outcomes large; no message may grow with the number of them.
func TestOutcomesTravelInBoundedMessages(t *testing.T) {
	b := newWorkerBench(t)
	log := strings.Repeat("x", task.LogTail)
	const attempts = 100
	b.do(message.MasterInOffice{})
	for i := range attempts {
		staging := all[worker.StageIn](b.do(worker.FromMaster{From: "m1", Message: message.Assign{
			Term: firstTerm, Serial: uint64(i + 1), Tasks: given("t" + strings.Repeat("x", i)),
		}}))
		b.do(worker.StagedIn{Attempt: staging[0].Attempt})
		b.succeed(staging[0].Attempt, log)
	}
	total := 0
	for _, report := range told[message.Report](b.do(message.MasterInOffice{Term: secondTerm, Peer: "m2"})) {
		bytes := 0
		for _, outcome := range report.Outcomes {
			bytes += len(outcome.Stdout)
			total++
		}
		if bytes > 4<<20 {
			t.Errorf("a report carries %d bytes of logs", bytes)
		}
	}
	if total != attempts {
		t.Errorf("%d of %d outcomes are reported", total, attempts)
	}
	actions := b.do(worker.ListBroadcast{From: "m2", List: message.TaskList{
		Census: true, Delta: matcher.ListDelta{Base: matcher.ListVersion{Term: secondTerm}, Version: matcher.ListVersion{Term: secondTerm, N: 1}},
	}})
	state := all[worker.AnswerBroadcast](actions)[0].Answer.State
	if len(state.Outcomes) > 1 || len(state.Outcomes)+len(state.InHand) != attempts {
		t.Errorf("a census hears %d outcomes and of %d to follow, want at most 1 and %d in all", len(state.Outcomes), len(state.InHand), attempts)
	}
}

// A task list asks for files: the answer names those of them that the cache has, in the
// order in which they are asked for.
func TestAnAnswerNamesWhatTheCacheHas(t *testing.T) {
	random := rand.New(rand.NewPCG(rand.Uint64(), 1))
	var ask, want []task.FileKey
	cached := make(map[task.FileKey]bool)
	for i := range 20 {
		key := task.KeyOf(task.LFN(fmt.Sprint("f", i)), task.Digest{})
		if ask = append(ask, key); random.IntN(2) == 0 {
			cached[key], want = true, append(want, key)
		}
	}
	self := matcher.Pilot{ID: "p1", Site: siteName, Slots: 1}
	evaluator := matcher.NewEvaluator(self, func(key task.FileKey) (task.Bytes, bool) { return 0, cached[key] }, matcher.NewCompiler(8))
	w := worker.New(worker.Config{}, self, "w1", evaluator)
	actions := w.Step(epoch, worker.ListBroadcast{From: "m1", List: message.TaskList{Ask: ask}})
	if got := all[worker.AnswerBroadcast](actions)[0].Answer.Have; !slices.Equal(got, want) {
		t.Errorf("of %v the cache has %v, the answer names %v", ask, want, got)
	}
}

// Whatever has begun ends with an outcome, though another attempt counts: the
// queue knows of its start, and books what it has used.
func TestAKilledAttemptHasAnOutcome(t *testing.T) {
	b := newWorkerBench(t)
	attempt := b.running("a", 1)
	b.do(worker.FromMaster{From: "m1", Message: message.Kill{Term: firstTerm, Task: attempt.Task, Lease: 7, Reason: "another runs it"}})
	reports := told[message.Report](b.do(worker.PayloadEnded{Attempt: attempt, Outcome: task.Outcome{Failure: task.PayloadFailed}}))
	if len(reports) != 1 || len(reports[0].Outcomes) != 1 || len(reports[0].Returned) > 0 {
		t.Fatalf("the master hears %+v", reports)
	}
}

// Why a pilot is told to drain is told on, once.
func TestADrainOrderTellsWhy(t *testing.T) {
	b := newWorkerBench(t)
	b.running("a", 1)
	order := worker.FromMaster{From: "m1", Message: message.DrainOrder{Reason: "an operator wants it"}}
	told := append(all[worker.Draining](b.do(order)), all[worker.Draining](b.do(order))...)
	if len(told) != 1 || told[0].Reason != "an operator wants it" {
		t.Errorf("told on: %+v", told)
	}
}

func TestADrainedPilotHasStoredItsOutputs(t *testing.T) {
	b := newWorkerBench(t)
	b.do(worker.SiteChanged{Settings: task.SiteSettings{Site: siteName, SE: "file:///se"}})
	attempt := b.running("a", 1)
	outcome := task.Outcome{OK: true, Delay: -1}
	b.do(worker.PayloadEnded{Attempt: attempt, Outcome: outcome})
	b.do(worker.Published{Attempt: attempt, Outcome: outcome, Outputs: []task.Produced{{LFN: name("x"), Digest: digestOf("x")}}})
	acks := message.Acks{Acks: []task.Ack{{Attempt: attempt, Verdict: task.AckAccepted}}}
	if actions := append(b.do(worker.Drain{Reason: "told to stop"}), b.do(worker.FromMaster{From: "m1", Message: acks})...); len(all[worker.Drained](actions)) > 0 {
		t.Fatal("the pilot goes while only its cache holds an output")
	}
	b.do(worker.Uploaded{Stored: []task.Stored{{LFN: name("x"), Attempt: attempt, URL: "file:///se/x"}}})
	if actions := b.do(worker.FromMaster{From: "m1", Message: message.Acks{Stored: []task.OutputID{{Attempt: attempt, LFN: name("x")}}}}); len(all[worker.Drained](actions)) != 1 {
		t.Fatal("the pilot does not go although the queue knows everything")
	}
}

// A node's lifetime counts for requirements: when it gets short the pilot
// says that it can no longer run a class.
func TestLifetimeIsJudgedAgain(t *testing.T) {
	b := newWorkerBench(t)
	version := matcher.ListVersion{Term: firstTerm, N: 1}
	b.do(worker.PilotChanged{Lifetime: time.Hour})
	b.do(worker.ListBroadcast{From: "m1", List: message.TaskList{Delta: matcher.ListDelta{
		Base: matcher.ListVersion{Term: firstTerm}, Version: version,
		Classes: []matcher.ListClass{{No: 1, Class: task.Class{Require: "pilot.lifetime_seconds > 600.0"}}},
	}}})
	if reports := told[message.Report](b.after(time.Minute, worker.PilotChanged{Lifetime: 59 * time.Minute})); len(reports) > 0 && reports[0].Row != nil {
		t.Fatal("a row is sent although no answer has changed")
	}
	b.do(worker.PilotChanged{Lifetime: 5 * time.Minute})
	reports := told[message.Report](b.after(time.Second, message.Tick{}))
	if len(reports) != 1 || reports[0].Row == nil || reports[0].Row.Classes[0].Feasible {
		t.Fatalf("the master hears %+v", reports)
	}
}

// A payload that makes nothing has nothing to publish: its end and its outcome
// are one message.
func TestATaskWithoutOutputsEndsAtOnce(t *testing.T) {
	b := newWorkerBench(t)
	nothing := given("a")
	nothing[0].Task.Outputs = nil
	staging := all[worker.StageIn](b.do(worker.FromMaster{From: "m1", Message: message.Assign{Term: firstTerm, Serial: 1, Tasks: nothing}}))
	b.do(worker.StagedIn{Attempt: staging[0].Attempt})
	actions := b.do(worker.PayloadEnded{Attempt: staging[0].Attempt, Outcome: task.Outcome{OK: true, Delay: -1}})
	if reports := told[message.Report](actions); len(reports) != 1 || len(reports[0].Outcomes) != 1 {
		t.Errorf("the outcome is not reported: %+v", reports)
	}
	if len(all[worker.Publish](actions)) != 0 || len(all[worker.Discard](actions)) != 1 {
		t.Errorf("instead of letting go of its folder: %+v", actions)
	}
}

// Outcomes gather while there is work for more than the freed slots.
func TestOutcomesGatherWhileSlotsHaveWork(t *testing.T) {
	b := newWorkerBench(t)
	tasks := given("a", "b", "c", "d", "e", "f", "g")
	var attempts []task.AttemptID
	for i := range tasks {
		tasks[i].Task.Outputs = nil
	}
	for _, staging := range all[worker.StageIn](b.do(worker.FromMaster{From: "m1", Message: message.Assign{Term: firstTerm, Serial: 1, Tasks: tasks}})) {
		b.do(worker.StagedIn{Attempt: staging.Attempt})
		attempts = append(attempts, staging.Attempt)
	}
	end := func(i int) int {
		b.do(worker.PayloadStarted{Attempt: attempts[i], At: b.now})
		reports := told[message.Report](b.after(time.Millisecond, worker.PayloadEnded{Attempt: attempts[i], Outcome: task.Outcome{OK: true, Delay: -1}}))
		if len(reports) == 0 {
			return 0
		}
		return len(reports[0].Outcomes)
	}
	if n := end(0); n != 0 {
		t.Errorf("with 5 tasks at hand for 2 slots, %d outcomes are sent at once", n)
	}
	if n := end(1); n != 2 {
		t.Errorf("with 4 tasks at hand for 2 slots, %d outcomes are sent, want both", n)
	}
}
