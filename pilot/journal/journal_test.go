package journal_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/journal"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

var term = task.Term{Epoch: 1, Peer: "peer-a"}

// written is the journal of a master that took office, ticked and left.
func written(t testing.TB) []byte {
	var buffer bytes.Buffer
	w, err := journal.NewWriter(&buffer, journal.Header{Version: "v1", Site: "siteA", Pilot: "p-a", Config: master.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	core := master.New(master.DefaultConfig(), "p-a", matcher.NewCompiler(16))
	now := time.Now()
	for i, event := range []message.Event{
		master.TookOffice{Term: term, Settings: task.SiteSettings{Site: "siteA", Secrets: "hidden"}, Alone: true},
		master.PilotUp{Pilot: "p-a", Peer: "peer-a"},
		message.Tick{},
		master.FromPilot{From: "peer-a", Message: message.Report{Status: message.Status{Number: 1}}},
		master.LeftOffice{},
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

// What opens storage elements is in no file.
func TestJournalsHoldNoSecrets(t *testing.T) {
	if bytes.Contains(written(t), []byte("hidden")) {
		t.Error("a journal holds the credentials of a storage element")
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
	for text, want := range map[string]string{
		"":             "no journal",
		"hello, world": "no journal",
		"pilotage journal, format 9 of pilotage \"v9\"\n": "read it with pilotage v9, which wrote it",
	} {
		if _, err := (journal.Replay{}).Run(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a file of %d bytes: %v, want %q", len(text), err, want)
		}
	}
}

// Any bytes are read to an end or an error.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(""))
	f.Add(written(f))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = journal.Replay{}.Run(bytes.NewReader(data))
		_, _ = journal.Workload(bytes.NewReader(data))
	})
}

// What a site has run while the journal was written becomes a workload: with the
// times and sizes that were measured, without what has not succeeded.
func TestJournalAsWorkload(t *testing.T) {
	var buffer bytes.Buffer
	w, err := journal.NewWriter(&buffer, journal.Header{Version: "v1", Site: "siteA", Pilot: "p-a", Config: master.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	leased := func(age uint64, name string, inputs, outputs []string) task.LeasedTask {
		described := task.Task{ID: task.NewID("w-1", name), Shell: "true", Resources: task.Resources{Cores: 2, Memory: task.GiB}}
		for _, in := range inputs {
			described.Inputs = append(described.Inputs, task.Input{LFN: task.Qualify("w-1", in), Name: in})
		}
		for _, out := range outputs {
			described.Outputs = append(described.Outputs, task.Output{LFN: task.Qualify("w-1", out), Name: out})
		}
		return task.LeasedTask{Task: described, Generation: 1, Age: age}
	}
	outcome := func(name string, counter uint64, ok bool, run time.Duration, made map[string]task.Bytes) task.Outcome {
		o := task.Outcome{Attempt: task.AttemptID{Task: task.NewID("w-1", name), Generation: 1, Lease: 1, Pilot: "p-a", Counter: counter}, OK: ok, Run: run}
		for out, size := range made {
			o.Outputs = append(o.Outputs, task.Produced{LFN: task.Qualify("w-1", out), Size: size})
		}
		return o
	}
	core := master.New(master.DefaultConfig(), "p-a", matcher.NewCompiler(16))
	files := []task.File{{LFN: task.Qualify("w-1", "in"), Size: 7, Replicas: []task.Replica{{Site: "siteA", URL: "file:///in"}}}, {LFN: task.Qualify("w-1", "mid"), Size: -1}}
	for i, event := range []message.Event{
		master.TookOffice{Term: term, Settings: task.SiteSettings{Site: "siteA"}, Alone: true, Leases: []task.Lease{{
			ID: 1, TTL: time.Hour, Files: files,
			Tasks: []task.LeasedTask{leased(2, "second", []string{"mid"}, []string{"end"}), leased(1, "first", []string{"in"}, []string{"mid"}), leased(3, "never", nil, nil)},
		}}},
		master.PilotUp{Pilot: "p-a", Peer: "peer-a"},
		master.FromPilot{From: "peer-a", Message: message.Report{Status: message.Status{Number: 1, Outcomes: []task.Outcome{
			outcome("first", 1, false, time.Second, nil), outcome("first", 2, true, time.Minute, map[string]task.Bytes{"mid": 11}),
		}}}},
		master.FromPilot{From: "peer-a", Message: message.State{Status: message.Status{Number: 2, Outcomes: []task.Outcome{
			outcome("first", 3, true, time.Hour, nil), outcome("second", 4, true, 2*time.Minute, map[string]task.Bytes{"end": 13}), outcome("never", 5, false, time.Second, nil),
		}}}},
	} {
		if _, err := w.Step(core, time.Now().Add(time.Duration(i)*time.Second), event); err != nil {
			t.Fatal(err)
		}
	}
	got, err := journal.Workload(bytes.NewReader(buffer.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Tasks) != 2 || len(got.Files) != 3 || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "1 tasks") {
		t.Fatalf("%+v", got)
	}
	first, second := got.Tasks[0], got.Tasks[1]
	if first.Name != "w-1/first" || first.Runtime != time.Minute || first.Cores != 2 || first.Memory != task.GiB || second.Runtime != 2*time.Minute {
		t.Errorf("%+v, %+v", first, second)
	}
	for name, size := range map[string]task.Bytes{"in": 7, "mid": 11, "end": 13} {
		found := false
		for i, f := range got.Files {
			if f.Name != string(task.Qualify("w-1", name)) {
				continue
			}
			found = true
			if f.Size != size || (f.Producer == trace.External) != (name == "in") {
				t.Errorf("%d: %+v, want %d bytes", i, f, size)
			}
		}
		if !found {
			t.Errorf("no file %s in %+v", name, got.Files)
		}
	}
	for _, text := range []string{"", string(written(t))} {
		if _, err := journal.Workload(strings.NewReader(text)); err == nil {
			t.Errorf("%d bytes of a journal without tasks are a workload", len(text))
		}
	}
}
