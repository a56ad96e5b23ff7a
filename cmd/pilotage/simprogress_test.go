package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestLongRunTellsOnATerminalInOneLine(t *testing.T) {
	var told bytes.Buffer
	run := &longRun{stderr: &told, terminal: true, tasks: 10}
	run.noted("events", 70*time.Second, 4)
	run.noted("events", 80*time.Second, 5) // in the same second
	run.told = time.Time{}
	run.noted("events", 90*time.Second, 6)
	run.end()
	got := told.String()
	if strings.Count(got, "\n") != 1 || strings.Count(got, "\r") != 2 || !strings.Contains(got, "\revents: 1m30s simulated, 6 of 10 tasks done, ") {
		t.Errorf("told %q", got)
	}
}

func TestLongRunTellsEveryHalfMinuteHowFarItIs(t *testing.T) {
	var told bytes.Buffer
	run := &longRun{stderr: &told, tasks: 10}
	run.noted("events", 70*time.Second, 4)
	run.noted("events", 80*time.Second, 5)
	if got, want := told.String(), "events: 1m10s simulated, 4 of 10 tasks done, "; !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
		t.Errorf("told %q, want one line that begins with %q", got, want)
	}
}
