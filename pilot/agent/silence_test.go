package agent

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// A queue that is away is told once, and so is its return; a short gap is not.
func TestSilenceOfTheQueueIsToldOnce(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	var s silence
	now, away := time.Unix(1000, 0), errors.New("refused")
	for _, c := range []struct {
		after time.Duration
		err   error
		warns int
		infos int
	}{
		{0, nil, 0, 0}, {time.Second, away, 0, 0}, {silenceTold / 2, nil, 0, 0}, // a restart
		{time.Second, away, 0, 0}, {silenceTold, away, 1, 0}, {time.Minute, away, 1, 0}, {time.Second, nil, 1, 1}, {time.Second, nil, 1, 1},
		{time.Second, away, 1, 1}, {silenceTold, away, 2, 1},
	} {
		now = now.Add(c.after)
		s.note(log, c.err, now)
		if warns, infos := strings.Count(text.String(), "WARN"), strings.Count(text.String(), "INFO"); warns != c.warns || infos != c.infos {
			t.Fatalf("after %s, %v: %d warnings and %d notes, want %d and %d:\n%s", c.after, c.err, warns, infos, c.warns, c.infos, text.String())
		}
	}
	if !strings.Contains(text.String(), "away=1m12s") && !strings.Contains(text.String(), "away=1m11s") {
		t.Errorf("how long it was away is not told:\n%s", text.String())
	}
}

// That the queue knows nothing of attempts here is told once, however many there are.
func TestUnknownAttemptsAreToldOnce(t *testing.T) {
	var text bytes.Buffer
	a := &queueLink{shell: &shell{log: slog.New(slog.NewTextHandler(&text, nil))}}
	for _, c := range []struct {
		verdict task.AckVerdict
		told    int
	}{{task.AckAccepted, 0}, {task.AckStale, 0}, {task.AckUnknown, 1}, {task.AckUnknown, 1}} {
		a.noteVerdicts([]task.Ack{{Verdict: task.AckDuplicate}, {Attempt: task.AttemptID{Task: "w-1/t"}, Verdict: c.verdict}})
		if told := strings.Count(text.String(), "WARN"); told != c.told {
			t.Fatalf("after verdict %d it was told %d times, want %d:\n%s", c.verdict, told, c.told, text.String())
		}
	}
	if !strings.Contains(text.String(), "w-1/t") {
		t.Errorf("no attempt is named:\n%s", text.String())
	}
}
