package worker

import (
	"testing"
	"time"
)

func TestAnIdlePilotEnds(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	i := Idleness{Most: 10 * time.Minute}
	for minute := range 9 {
		if i.Over(now.Add(time.Duration(minute)*time.Minute), 0) {
			t.Fatalf("over after %d minutes", minute)
		}
	}
	if i.Over(now.Add(9*time.Minute), 2) || i.Over(now.Add(18*time.Minute), 0) {
		t.Error("over within 10 minutes of a payload")
	}
	if !i.Over(now.Add(19*time.Minute), 0) {
		t.Error("not over 10 minutes after the last payload")
	}
	forever := Idleness{}
	if forever.Over(now, 0) || forever.Over(now.Add(1000*time.Hour), 0) {
		t.Error("a pilot without a limit is over")
	}
}
