package matcher

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// TestAcceptIs001 (section 2.3): only over night, only with load below a
// threshold, only with free memory.
func TestAcceptIs001(t *testing.T) {
	at := func(clock string) time.Time {
		parsed, err := time.Parse("Mon 2006-01-02 15:04", clock)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	quiet := Conditions{Load: 0.25, FreeMemory: 4 * task.GiB, FreeDisk: 20 * task.GiB, Now: at("Sat 2026-11-21 22:15")}
	for policy, accepts := range map[string]bool{
		"":           true,
		"load < 0.5": true, "load < 0.25": false,
		"free_memory > 2 * GiB && free_disk >= 20 * GiB": true,
		"hour >= 20 || hour < 6":                         true, "hour >= 9 && hour < 17": false,
		"weekday == 6 && minute == 15": true, "weekday == 0": false,
		"free_memory / (hour - 22) > 0":                                   false, // cannot be evaluated
		`now >= timestamp("2026-11-21T22:15:00Z")`:                        true,
		`now < timestamp("2026-11-21T22:15:00Z")`:                         false,
		`now.getFullYear("Europe/Berlin") == 2026 && now.getHours() > 10`: true,
	} {
		compiled, err := CompileAcceptance(policy)
		if err != nil {
			t.Fatalf("%q: %v", policy, err)
		}
		got, why := compiled.Accepts(quiet)
		if got != accepts || (why == "") != accepts || !accepts && !strings.HasPrefix(why, policy) {
			t.Errorf("%q accepts %v, because %q", policy, got, why)
		}
	}
}

// TestAcceptKnowsItsOwnNames: the names of ranks are unknown to a policy, and
// the other way round.
func TestAcceptKnowsItsOwnNames(t *testing.T) {
	for policy, part := range map[string]string{
		"pilot.memory > 1": "did you mean free_memory?", "x > 1": "known are load", "lod < 1": "did you mean load?", "load": "true when", "hour +": "breaks off here",
	} {
		err := Check(AcceptExpression, policy)
		var expression *ExpressionError
		if !errors.As(err, &expression) || expression.Kind != AcceptExpression || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", policy, err, part)
		}
	}
	if err := Check(RequirementExpression, "hour < 6"); err == nil {
		t.Error("a requirement knows the hour, which nobody would evaluate again")
	}
}

// TestMicroScheduling (004, section II): ranks that see free cores, their
// speed and what runs beside.
func TestMicroScheduling(t *testing.T) {
	busy := Facts{Task: &task.Task{Bound: task.IOBound}, Pilot: &Pilot{CoreSpeed: 2.5, Live: Live{FreeCores: 3, CPUBound: 4, IOBound: 1}, Features: []string{"matlab"}}}
	for expression, want := range map[string]float64{
		"double(pilot.free_cores) * pilot.core_speed": 7.5,
		"pilot.io_bound - pilot.cpu_bound":            -3,
		`"matlab" in pilot.features ? 1 : 0`:          1,
	} {
		rank, err := CompileRank(expression)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		if got := rank.Of(busy, Rates{}); got != want || rank.perTask() {
			t.Errorf("%s is %g, want %g; per task %v", expression, got, want, rank.perTask())
		}
	}
}

// TestBoundIsOfTheTask: a rank that looks at the hint beside the pilot is
// evaluated for each task.
func TestBoundIsOfTheTask(t *testing.T) {
	rank, err := CompileRank(`task.bound == "io" ? -pilot.io_bound : -pilot.cpu_bound`)
	if err != nil || !rank.perTask() {
		t.Fatalf("%+v, %v", rank, err)
	}
	pilot := &Pilot{Live: Live{CPUBound: 4, IOBound: 1}}
	for bound, want := range map[task.Bound]float64{task.IOBound: -1, task.CPUBound: -4, "": -4} {
		if got := rank.Of(Facts{Pilot: pilot, Task: &task.Task{Bound: bound}}, Rates{}); got != want {
			t.Errorf("bound %q: %g, want %g", bound, got, want)
		}
	}
}

func FuzzAcceptance(f *testing.F) {
	for _, seed := range []string{"", "load < 0.5", "hour >= 20 || hour < 6", "1 / minute > 0", "files", "true && weekday", "((", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		policy, err := CompileAcceptance(text)
		if err != nil {
			return
		}
		if accepts, why := policy.Accepts(Conditions{}); accepts != (why == "") || len(why) > maxClauseText+len("...") {
			t.Fatalf("%q: %v, %q", text, accepts, why)
		}
	})
}
