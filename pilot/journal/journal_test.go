package journal_test

import (
	"bytes"
	"encoding/gob"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot"
	"github.com/pilotage-grid/pilotage/pilot/journal"
	"github.com/pilotage-grid/pilotage/task"
)

var term = task.Term{Epoch: 1, Peer: "peer-a"}

// written is the journal of a master that took office, ticked and left.
func written(t *testing.T) []byte {
	var buffer bytes.Buffer
	w, err := journal.NewWriter(&buffer, journal.Header{Version: "v1", Site: "siteA", Pilot: "p-a", Config: pilot.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	core := pilot.NewMaster(pilot.DefaultConfig(), "p-a", matcher.NewCompiler(16))
	now := time.Now()
	for i, event := range []pilot.Event{
		pilot.TookOffice{Term: term, Settings: task.SiteSettings{Site: "siteA"}, Alone: true},
		pilot.PilotUp{Pilot: "p-a", Peer: "peer-a"},
		pilot.Tick{},
		pilot.FromPilot{From: "peer-a", Message: pilot.Report{Number: 1}},
		pilot.LeftOffice{},
	} {
		if _, err := w.Step(core, now.Add(time.Duration(i)*time.Second), event); err != nil {
			t.Fatal(err)
		}
	}
	return buffer.Bytes()
}

func TestReplayReadsWhatWasWritten(t *testing.T) {
	result, err := journal.Replay{}.Run(bytes.NewReader(written(t)))
	if err != nil {
		t.Fatal(err)
	}
	if result.Steps != 5 || result.Span != 4*time.Second || result.Cut || result.First != nil || result.Header.Pilot != "p-a" {
		t.Errorf("the replay is %+v", result)
	}
}

// A journal whose writer was killed is read up to its last whole record.
func TestCutJournal(t *testing.T) {
	whole := written(t)
	for cut := 1; cut < 40; cut++ {
		result, err := journal.Replay{}.Run(bytes.NewReader(whole[:len(whole)-cut]))
		if err != nil {
			t.Fatalf("cut by %d bytes: %v", cut, err)
		}
		if result.Steps >= 5 {
			t.Errorf("cut by %d bytes: %d steps", cut, result.Steps)
		}
	}
}

func TestForeignFiles(t *testing.T) {
	var later bytes.Buffer
	if err := gob.NewEncoder(&later).Encode(journal.Header{Format: journal.Format + 1, Version: "v9"}); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":             "no journal",
		"hello, world": "no journal",
		later.String(): "which wrote it",
	} {
		if _, err := (journal.Replay{}).Run(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a file of %d bytes: %v, want %q", len(text), err, want)
		}
	}
}

// Any bytes are read to an end or an error.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(""))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = journal.Replay{}.Run(bytes.NewReader(data))
	})
}
