package workernode

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/task"
)

// played are payloads that end as they are told.
type played struct {
	agent.Payloads
	result exec.Result
	during func()
}

func (p *played) Run(_ context.Context, _ exec.Spec, started func(time.Time, int)) exec.Result {
	if !p.result.Started.IsZero() {
		started(p.result.Started, p.result.Process)
	}
	if p.during != nil {
		p.during()
	}
	return p.result
}

// TestNodesRecordWhatRan reads what two pilots of a node have recorded: attempts that
// ended, one that runs, none that never began. Files are the pilot's alone; what is too
// old or too much goes, and what a pilot is just writing does not hinder.
func TestNodesRecordWhatRan(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "records")
	if _, err := NodeRecords(folder); !os.IsNotExist(err) {
		t.Errorf("of no folder: %v", err)
	}
	began := time.Now().Add(-time.Hour)
	runs := &played{}
	pilot := func(id task.PilotID) *recorded {
		r := &recorded{Payloads: runs, folder: folder, log: slog.New(slog.DiscardHandler), about: NodeRecord{Site: "siteA", Node: "wn042", Pilot: id, BatchJob: "slurm:77"}}
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	one, two := pilot("p-aaaaaaaa"), pilot("p-bbbbbbbb")
	run := func(r *recorded, name string, result exec.Result) {
		runs.result = result
		id := task.NewID("w-aaaaaaaaaa", name)
		heard := 0
		got := r.Run(t.Context(), exec.Spec{Attempt: task.AttemptID{Task: id, Pilot: r.about.Pilot}, Task: task.Task{ID: id}}, func(time.Time, int) { heard++ })
		if got.Process != result.Process || heard == 0 != result.Started.IsZero() {
			t.Errorf("%s: the pilot heard %d times of the start, and of process %d", name, heard, got.Process)
		}
	}
	run(one, "good", exec.Result{OK: true, Started: began, Ended: began.Add(time.Minute), Process: 41})
	run(two, "bad", exec.Result{Reason: "exit code\x1b[31m 3\n{", Started: began.Add(time.Second), Ended: began.Add(2 * time.Minute), Process: 42})
	run(one, "never", exec.Result{Reason: "no program"})
	var during []NodeRecord
	runs.during = func() { during, _ = NodeRecords(folder) }
	run(two, "long", exec.Result{OK: true, Started: began.Add(3 * time.Minute), Ended: began.Add(4 * time.Minute), Process: 43})
	runs.during = nil

	files, _ := recordFiles(folder)
	if len(files) != 2 {
		t.Fatalf("two pilots write %d files", len(files))
	}
	for _, path := range files {
		if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	if info, err := os.Lstat(folder); err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	written, err := os.OpenFile(files[0], os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = written.WriteString(`{"task":"w-aaaaaaaaaa/half`)
	}
	if err != nil || written.Close() != nil {
		t.Fatal(err)
	}
	records, err := NodeRecords(folder)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, r := range records {
		if r.Site != "siteA" || r.Node != "wn042" || r.BatchJob != "slurm:77" || !strings.Contains(r.Attempt, string(r.Pilot)) || r.Ended.Before(r.Started) {
			t.Errorf("%+v", r)
		}
		told = append(told, r.Task.Name()+" "+r.Note)
	}
	if want := []string{"good succeeded", "bad failed: " + task.Brief("exit code\x1b[31m 3\n{"), "long succeeded"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
	if len(during) != 3 || !during[2].Ended.IsZero() || during[2].Process != 43 {
		t.Errorf("while it runs: %+v", during)
	}

	old, large := filepath.Join(folder, "2001-old.jsonl"), filepath.Join(folder, "2002-large.jsonl")
	for _, path := range []string{old, large} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(large, recordsInAll); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-keepRecords-time.Hour)); err != nil {
		t.Fatal(err)
	}
	one.size = recordFile + 1 // as after very many attempts
	run(one, "more", exec.Result{OK: true, Started: began, Ended: began, Process: 44})
	if files, _ = recordFiles(folder); len(files) != 3 || slices.Contains(files, old) || slices.Contains(files, large) {
		t.Errorf("of two files, one too old and one too large there are by now %q", files)
	}
	if records, err := NodeRecords(folder); err != nil || len(records) != 4 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// An old file that cannot be removed costs no line of what ran.
func TestRecordsGoOnBesideAFileThatStays(t *testing.T) {
	folder := t.TempDir()
	stays := filepath.Join(folder, "20200101T000000-p-cccccccc-1"+recordsEnding)
	if err := os.MkdirAll(filepath.Join(stays, "not empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * keepRecords)
	if err := os.Chtimes(stays, old, old); err != nil {
		t.Fatal(err)
	}
	r := &recorded{folder: folder, log: slog.New(slog.DiscardHandler), about: NodeRecord{Pilot: "p-aaaaaaaa"}}
	for i := range 3 {
		if i == 2 { // the next file
			r.size = recordFile + 1
		}
		r.write(NodeRecord{Attempt: strings.Repeat("a", i+1)})
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := recordFiles(folder)
	lines := 0
	for _, path := range files[1:] {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(text), "\n")
	}
	if len(files) != 3 || lines != 3 {
		t.Errorf("%d lines of 3 in %v", lines, files)
	}
}
