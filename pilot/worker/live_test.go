package worker_test

import (
	"testing"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// A worker tells with the first report after an assignment how that has changed
// its ranks, and again when the payload has ended.
func TestAWorkerTellsWhatRunsBeside(t *testing.T) {
	b := newWorkerBench(t)
	list := matcher.ListSnapshot{
		Version: matcher.ListVersion{Term: firstTerm, N: 1}, Rates: matcher.DefaultRates(),
		Classes: []matcher.ListClass{{No: 1, Class: task.Class{Rank: "10 * pilot.free_cores - pilot.io_bound"}}, {No: 2, Class: task.Class{}}},
	}
	b.do(worker.FromMaster{From: "m1", Message: message.Snapshot{List: list}})
	assigned := given("io")
	assigned[0].Task.Bound = task.IOBound
	actions := b.do(worker.FromMaster{From: "m1", Message: message.Assign{Term: firstTerm, Serial: 5, Tasks: assigned}})
	rank := func(actions []message.Action) (base float64, seen uint64) {
		for _, report := range told[message.Report](actions) {
			for _, update := range report.Updates {
				if len(update.Classes) != 1 || update.Classes[0].Class != 1 {
					t.Errorf("classes %+v are answered again, want the first alone", update.Classes)
				}
				base = update.Classes[0].Base
			}
			seen = report.Seen
		}
		return base, seen
	}
	if base, seen := rank(actions); base != 9 || seen != 5 {
		t.Errorf("with one core of two taken the rank is %g, as of assignment %d", base, seen)
	}
	attempt := all[worker.StageIn](actions)[0].Attempt
	b.do(worker.StagedIn{Attempt: attempt})
	b.do(worker.PayloadStarted{Attempt: attempt, At: b.now})
	if base, _ := rank(b.do(worker.PayloadEnded{Attempt: attempt, Outcome: task.Outcome{OK: true, Delay: -1}})); base != 20 {
		t.Errorf("with both cores free the rank is %g", base)
	}
}
