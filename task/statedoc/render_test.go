package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

func TestPageIsFresh(t *testing.T) {
	want, err := render()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/task-states.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/task-states.md differs from the transition table: run make generate")
	}
}

func TestPageHasEveryTransition(t *testing.T) {
	page, err := render()
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range task.States() {
		if !strings.Contains(page, "\n| "+state.String()+" | ") {
			t.Errorf("no row for the state %s", state)
		}
		for _, event := range task.Events() {
			next, err := state.Next(event)
			if err == nil && !hasArrow(page, state, next, event) {
				t.Errorf("no arrow from %s to %s for %q", state, next, event)
			}
		}
	}
	if rows := strings.Count(page, "\n| "); rows != 3+len(task.States())+2*len(task.Events()) {
		t.Errorf("%d rows in the tables", rows)
	}
}

// hasArrow looks for the event among the labels of one arrow of the diagram.
func hasArrow(page string, from, to task.State, event task.Event) bool {
	_, rest, found := strings.Cut(page, "    "+from.String()+" --> "+to.String()+": ")
	labels, _, _ := strings.Cut(rest, "\n")
	for label := range strings.SplitSeq(labels, " / ") {
		if found && label == event.String() {
			return true
		}
	}
	return false
}

func TestMissingDescriptionIsAnError(t *testing.T) {
	words := eventWords[task.Succeed]
	delete(eventWords, task.Succeed)
	defer func() { eventWords[task.Succeed] = words }()
	if _, err := render(); err == nil || !strings.Contains(err.Error(), task.Succeed.String()) {
		t.Errorf("got %v, want an error that names %q", err, task.Succeed)
	}
}
