package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestLongRunTellsEveryHalfMinuteHowFarItIs(t *testing.T) {
	var told bytes.Buffer
	run := &longRun{stderr: &told, tasks: 10}
	run.noted("events", 70*time.Second, 4)
	run.noted("events", 80*time.Second, 5)
	if got, want := told.String(), "events: 1m10s simulated, 4 of 10 tasks done, "; !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
		t.Errorf("told %q, want one line that begins with %q", got, want)
	}
}
