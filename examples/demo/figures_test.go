package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goodFigures are those of a run that is as it should be: 160 tasks, each
// made by one of eight pilots, all reading one file.
func goodFigures(t *testing.T) *figures {
	t.Helper()
	f := &figures{cached: map[string]map[string]bool{}}
	f.workflow.State = "DONE"
	sites := []string{}
	for _, site := range siteNames {
		sites = append(sites, fmt.Sprintf(`{"settings": {"name": %q}, "se_transfers": 1, "se_transfer_bytes": 7, "queue_requests": 90,
			"delay_count": 70, "delay_p50_seconds": 0.002, "delay_p95_seconds": 0.01, "master": "p-x", "term": "1.0/x"}`, site))
		f.cached[site] = map[string]bool{strings.Repeat("0a", 32): true}
		for n := range pilotsPerSite {
			var p pilotJSON
			p.Contact.Pilot, p.Site = fmt.Sprintf("%s-%d", site, n), site
			f.pilots = append(f.pilots, p)
		}
	}
	decode(t, "["+strings.Join(sites, ",")+"]", &f.sites)
	tasks := []string{}
	for i := range 160 {
		site := siteNames[i%2]
		source := map[int]string{0: sourceSE, 1: sourcePeer}[i/2]
		if source == "" {
			source = sourceLocal
		}
		tasks = append(tasks, fmt.Sprintf(`{"task": {"id": "w-x/t[%d]"}, "state": "DONE", "attempts": [{
			"state": "SUCCEEDED", "outcome": {"attempt": {"pilot": "%s-%d"}, "site": %q,
			"reads": [{"lfn": "f", "size_bytes": 7, "source": %q}], "outputs": [{"digest": "C2g="}]}}]}`,
			i, site, i/2%pilotsPerSite, site, source))
	}
	decode(t, "["+strings.Join(tasks, ",")+"]", &f.tasks)
	return f
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// TestProblems: a good run has none, and each thing that may be wrong is told.
func TestProblems(t *testing.T) {
	good := goodFigures(t)
	good.unasked = []string{"nobody answered, and it did not matter"}
	if found := good.problems(); len(found) > 0 {
		t.Fatalf("a good run has problems: %q", found)
	}
	for _, c := range []struct {
		want  string
		spoil func(f *figures)
	}{
		{"the workflow is FAILED", func(f *figures) { f.workflow.State = "FAILED" }},
		{"159 of 160 tasks done", func(f *figures) { f.tasks[3].State = "LEASED" }},
		{"fewer than 150", func(f *figures) { f.tasks = f.tasks[:149] }},
		{"siteB ran 39 of 160 tasks", func(f *figures) {
			for i := range 41 {
				f.tasks[2*i+1].Attempts[0].State = "LOST"
			}
		}},
		{"at siteA nothing was read from a peer's cache", func(f *figures) { f.tasks[2].Attempts[0].Outcome.Reads = nil }},
		{"siteB has no master", func(f *figures) { f.sites[1].Master = "" }},
		{"7 pilots are registered", func(f *figures) { f.pilots = f.pilots[1:] }},
		{"pilot idle of siteA ran no task", func(f *figures) { f.pilots[0].Contact.Pilot = "idle" }},
		{"2 pilots of siteA read f from a storage element", func(f *figures) { f.tasks[4].Attempts[0].Outcome.Reads[0].Source = sourceRemote }},
		{"served 3 files, of which 2", func(f *figures) { f.sites[0].Transfers = 2 }},
		{"served 2 files, of which 1", func(f *figures) {
			f.cached["siteA"] = map[string]bool{"0b68": true} // made there
			for i := range f.tasks {
				if f.tasks[i].Attempts[0].Outcome.Site == "siteB" {
					f.tasks[i].Attempts[0].Outcome.Outputs = nil
				}
			}
		}},
		{"this may be why: nobody answered", func(f *figures) { f.sites[0].Transfers, f.unasked = 2, []string{"nobody answered"} }},
	} {
		f := goodFigures(t)
		c.spoil(f)
		if found := strings.Join(f.problems(), "; "); !strings.Contains(found, c.want) {
			t.Errorf("problems are %q, want one that says %q", found, c.want)
		}
	}
}

// TestSummary: the summary has all figures.
func TestSummary(t *testing.T) {
	f := goodFigures(t)
	f.tasks[9].Attempts = append(f.tasks[9].Attempts, attemptJSON{State: "LOST"})
	var text strings.Builder
	f.print(&text)
	for _, want := range []string{
		"160 tasks, 161 attempts (1 lost)", "siteA", "siteB", "20 + 20 + 20 + 20", "78 (546 B)", "1 (7 B)",
		"p50 2 ms, p95 10 ms", "1.12", "p-x", "1.0/x",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, text.String())
		}
	}
}

// TestCompare: equal files pass, one wrong byte does not, nor do missing and
// empty ones.
func TestCompare(t *testing.T) {
	write := func(folder, text string) {
		for _, name := range outputs {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, want := t.TempDir(), t.TempDir()
	write(got, "a\nb\n")
	write(want, "a\nb\n")
	if table, err := compare(got, want); err != nil || !strings.Contains(table, "2 lines") {
		t.Errorf("equal files: %q, %v", table, err)
	}
	if err := flipByte(filepath.Join(got, outputs[0])); err != nil {
		t.Fatal(err)
	}
	if _, err := compare(got, want); err == nil || !strings.Contains(err.Error(), "first at byte 3") {
		t.Errorf("a flipped byte: %v", err)
	}
	if _, err := compare(t.TempDir(), want); err == nil {
		t.Error("missing files pass")
	}
	write(got, "")
	write(want, "")
	if _, err := compare(got, want); err == nil {
		t.Error("empty files pass")
	}
}
