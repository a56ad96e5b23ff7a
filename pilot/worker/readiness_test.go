package worker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
)

// 001 (section 2.3): while the pilot's own policy declines, it takes no work:
// what runs ends, what does not run yet goes back, and the master is told why.
func TestAPilotTakesWorkByItsOwnPolicy(t *testing.T) {
	policy, err := matcher.CompileAcceptance("hour >= 20 && load < 0.5")
	if err != nil {
		t.Fatal(err)
	}
	b := newWorkerBench(t, func(w *worker.Worker) { w.AcceptBy(policy) })
	observed := func(hour int, load float64) []message.Action {
		now := time.Date(2026, 11, 21, hour, 0, 0, 0, time.UTC)
		return b.do(worker.PilotChanged{Conditions: matcher.Conditions{Load: load, Now: now}, Lifetime: time.Hour})
	}
	last := func(actions []message.Action) message.Report {
		reports := told[message.Report](actions)
		if len(reports) == 0 {
			return message.Report{}
		}
		return reports[len(reports)-1]
	}
	b.do(worker.PilotChanged{Lifetime: time.Hour, Checking: true})
	if state := told[message.State](b.do(worker.FromMaster{From: "m1", Message: message.Want{Term: firstTerm, Serial: 1, State: true}})); len(state) != 1 || !state[0].Draining || !state[0].Stays || state[0].Stopped != "" {
		t.Fatalf("during the self-check it tells %+v", state)
	}
	if said := last(observed(21, 0.1)); said.Draining || said.Stopped != "" {
		t.Fatalf("at 21:00 it tells %+v", said)
	}
	runs := b.running("runs", 2)
	waits := all[worker.StageIn](b.do(worker.FromMaster{From: "m1", Message: message.Assign{Term: firstTerm, Serial: 3, Tasks: given("waits")}}))[0].Attempt

	actions := observed(21, 0.7)
	if said := last(actions); !said.Draining || !said.Stays || !strings.Contains(said.Stopped, "own policy declines: hour >= 20 && load < 0.5") ||
		len(said.Returned) != 1 || said.Returned[0].Task != id("waits") {
		t.Errorf("with a load of 0.7 it tells %+v", said)
	}
	if !slices.ContainsFunc(all[worker.Discard](actions), func(d worker.Discard) bool { return d.Attempt == waits }) || len(all[worker.KillPayload](actions)) > 0 {
		t.Errorf("with a load of 0.7 it does %+v", actions)
	}
	if refused := last(b.do(worker.FromMaster{From: "m1", Message: message.Assign{Term: firstTerm, Serial: 4, Tasks: given("late")}})); len(refused.Returned) != 1 {
		t.Errorf("a task that comes all the same is not handed back: %+v", refused)
	}
	if ended := last(b.succeed(runs, "")); len(ended.Outcomes) != 1 || !ended.Outcomes[0].OK || !ended.Draining {
		t.Errorf("what ran ended as %+v", ended)
	}
	if said := last(observed(19, 0.1)); len(said.Returned) > 0 {
		t.Errorf("it hands back again: %+v", said)
	}
	if said := last(observed(20, 0.1)); said.Draining || said.Stopped != "" {
		t.Errorf("at 20:00 it tells %+v", said)
	}
	b.running("again", 5)
	if said := last(b.do(worker.Drain{Reason: "told to stop"})); !said.Draining || said.Stays {
		t.Errorf("told to stop it tells %+v", said)
	}
}
