package task_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

func TestStateTexts(t *testing.T) {
	seen := map[string]bool{}
	for _, state := range task.States() {
		if seen[state.String()] {
			t.Errorf("%s is the name of two states", state)
		}
		seen[state.String()] = true
	}
	if got := task.State(0).String() + task.State(99).String() + task.Event(0).String() + task.Event(99).String(); got != "State(0)State(99)Event(0)Event(99)" {
		t.Errorf("unknown states and events print as %s", got)
	}
}

func TestEventsHaveDifferentNames(t *testing.T) {
	seen := map[string]bool{}
	for _, event := range task.Events() {
		if seen[event.String()] {
			t.Errorf("two events are called %q", event)
		}
		seen[event.String()] = true
	}
	if len(seen) != 14 {
		t.Errorf("%d events", len(seen))
	}
}

func TestRefusedTransition(t *testing.T) {
	state, err := task.Done.Next(task.HandOut)
	var refused *task.TransitionError
	if !errors.As(err, &refused) || refused.From != task.Done || refused.Event != task.HandOut || state != task.Done {
		t.Errorf("got %s, %v", state, err)
	}
	if err.Error() != `a task in state DONE does not take the event "hand-out"` {
		t.Errorf("the error reads %q", err)
	}
}

// The rules that the table must keep, whatever is added to it.
func TestTransitionRules(t *testing.T) {
	reopens := map[task.Event]bool{task.Retry: true, task.Regenerate: true}
	for _, from := range task.States() {
		for _, event := range task.Events() {
			to, err := from.Next(event)
			if err != nil {
				if to != from {
					t.Errorf("%s refuses %q and yet becomes %s", from, event, to)
				}
				continue
			}
			if to == from {
				t.Errorf("%s takes %q and stays", from, event)
			}
			if from.Terminal() && !reopens[event] {
				t.Errorf("%s has ended and takes %q", from, event)
			}
			if !from.Terminal() && reopens[event] {
				t.Errorf("%s has not ended and is reopened by %q", from, event)
			}
			if reopens[event] && to != task.Blocked {
				t.Errorf("%s reopened by %q is %s: its inputs were not looked at", from, event, to)
			}
			if to == task.Leased && event != task.HandOut {
				t.Errorf("%s becomes LEASED by %q", from, event)
			}
			if (to == task.Done) != (event == task.Succeed) {
				t.Errorf("%s becomes %s by %q", from, to, event)
			}
		}
		// Outcomes are facts, and a user may always stop what has not ended.
		for _, event := range []task.Event{task.Succeed, task.Cancel, task.CancelUpstream} {
			if _, err := from.Next(event); (err == nil) == from.Terminal() {
				t.Errorf("%s and %q: %v", from, event, err)
			}
		}
		if from.EndedBadly() != (from.Terminal() && from != task.Done) {
			t.Errorf("%s: ended badly %v", from, from.EndedBadly())
		}
	}
}

// Every life can still be brought to its end: DONE is reachable from any
// state that random events lead to.
func TestNoLifeIsStuck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := task.Blocked
		for _, event := range rapid.SliceOfN(rapid.SampledFrom(task.Events()), 0, 40).Draw(t, "events") {
			state, _ = state.Next(event) // a refused event changes nothing
		}
		for _, way := range [][]task.Event{
			nil, {task.Succeed}, {task.Retry, task.InputsExist, task.HandOut, task.Succeed},
		} {
			end := state
			for _, event := range way {
				end, _ = end.Next(event)
			}
			if end == task.Done {
				return
			}
		}
		t.Fatalf("no way from %s to DONE", state)
	})
}

func TestNamesOfKinds(t *testing.T) {
	if task.PilotLost.String() != "pilot lost" || task.FailureKind(99).String() != "unknown failure" {
		t.Error("kinds of failure have wrong names")
	}
	names := ""
	for _, source := range task.Sources() {
		names += source.String() + " "
	}
	// The names are labels of pilotage_reads_total, which others script against.
	if names != "local peer se remote " || task.Source(99).String() != "unknown source" {
		t.Errorf("sources are called %s", names)
	}
}
