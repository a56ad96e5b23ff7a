package agent

import (
	"testing"
	"time"
)

func TestAnIdlePilotEnds(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	i := idleness{most: 10 * time.Minute}
	for minute := range 9 {
		if i.over(now.Add(time.Duration(minute)*time.Minute), 0) {
			t.Fatalf("over after %d minutes", minute)
		}
	}
	if i.over(now.Add(9*time.Minute), 2) || i.over(now.Add(18*time.Minute), 0) {
		t.Error("over within 10 minutes of a payload")
	}
	if !i.over(now.Add(19*time.Minute), 0) {
		t.Error("not over 10 minutes after the last payload")
	}
	forever := idleness{}
	if forever.over(now, 0) || forever.over(now.Add(1000*time.Hour), 0) {
		t.Error("a pilot without a limit is over")
	}
}
