package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goodFindings are those of a run that is as it should be: 160 tasks, each
// made by one of eight pilots, all reading one file.
func goodFindings(t *testing.T) *findings {
	t.Helper()
	f := &findings{}
	var sites, pilots, tasks []string
	for _, site := range siteNames {
		sites = append(sites, fmt.Sprintf(`{"settings": {"name": %q}, "tasks": 80, "master": "p-x",
			"external": {"peer_reads": 1}, "intermediate": {"peer_reads": 0}}`, site))
		for n := range pilotsPerSite {
			pilots = append(pilots, fmt.Sprintf(`{"contact": {"pilot": "%s-%d"}, "site": %q, "done": 20}`, site, n, site))
		}
	}
	for i := range 160 {
		site := siteNames[i%2]
		source := map[int]string{0: "SE", 1: "PEER"}[i/2]
		tasks = append(tasks, fmt.Sprintf(`{"task": {"id": "w-x/t[%d]"}, "state": "DONE", "attempts": [{
			"state": "SUCCEEDED", "outcome": {"attempt": {"pilot": "%s-%d"}, "site": %q, "reads": [{"lfn": "f", "size_bytes": 7, "source": %q}]}}]}`,
			i, site, i/2%pilotsPerSite, site, cmp.Or(source, "LOCAL")))
	}
	decode(t, sites, &f.sites)
	decode(t, pilots, &f.pilots)
	decode(t, tasks, &f.tasks)
	return f
}

func decode(t *testing.T, list []string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte("["+strings.Join(list, ",")+"]"), into); err != nil {
		t.Fatal(err)
	}
}

// TestProblems: a good run has none, and each thing that may be wrong is told.
func TestProblems(t *testing.T) {
	if found := goodFindings(t).problems(); len(found) > 0 {
		t.Fatalf("a good run has problems: %q", found)
	}
	for _, c := range []struct {
		want  string
		spoil func(f *findings)
	}{
		{"fewer than 150", func(f *findings) { f.tasks = f.tasks[:149] }},
		{"siteB ran 39 of 160 tasks", func(f *findings) { f.sites[1].Tasks = 39 }},
		{"at siteA nothing was read from a peer's cache", func(f *findings) { f.sites[0].External.Reads = 0 }},
		{"siteB has no master", func(f *findings) { f.sites[1].Master = "" }},
		{"7 pilots are registered", func(f *findings) { f.pilots = f.pilots[1:] }},
		{"pilot siteA-0 of siteA ran no task", func(f *findings) { f.pilots[0].Done = 0 }},
		{"siteA-0 and siteA-2 of siteA both read f from a storage element", func(f *findings) { f.tasks[4].Attempts[0].Outcome.Reads[0].Source = "REMOTE" }},
	} {
		f := goodFindings(t)
		c.spoil(f)
		if found := strings.Join(f.problems(), "; "); !strings.Contains(found, c.want) {
			t.Errorf("problems are %q, want one that says %q", found, c.want)
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
	if _, err := compare(got, want); err == nil || !strings.Contains(err.Error(), "differs") {
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
