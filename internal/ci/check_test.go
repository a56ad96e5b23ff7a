package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A run that breaks no rule.
const goodRun = `{"Action":"pass","Package":"github.com/pilotage-grid/pilotage/task","Test":"TestA"}
{"Action":"pass","Package":"github.com/pilotage-grid/pilotage/task","Test":"TestB"}
{"Action":"pass","Package":"github.com/pilotage-grid/pilotage/task"}
{"Action":"skip","Package":"github.com/pilotage-grid/pilotage/proto/pilotage/v1"}
`

func TestCheck(t *testing.T) {
	generated := exemptions{"proto/pilotage/v1": "generated"}
	for _, c := range []struct {
		name     string
		run      string
		recorded int
		untested exemptions
		want     string // part of the only sentence; empty for none
	}{
		{"in order", goodRun, 2, generated, ""},
		{"more tests than recorded", goodRun, 1, generated, ""},
		{"fewer tests than recorded", goodRun, 3, generated, "2 tests ran, 3 are recorded"},
		{"a package without tests", goodRun, 2, nil, "proto/pilotage/v1 has no tests"},
		{"an exemption that is not needed", goodRun, 2, exemptions{"proto/pilotage/v1": "x", "task": "x"}, "task has tests now"},
		{"a skipped test", goodRun + `{"Action":"skip","Package":"p","Test":"TestC"}`, 2, generated, "p.TestC was skipped"},
		{"a failed package", goodRun + `{"Action":"pass","Package":"p","Test":"TestC"}` + "\n" + `{"Action":"fail","Package":"p"}`, 2, generated, "p failed"},
		{"nothing ran", "", 0, nil, "no test ran"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _, _ := showSome(t, c.run)
			broken := check(r, c.recorded, c.untested)
			switch {
			case c.want == "" && len(broken) > 0:
				t.Errorf("unexpected: %q", broken)
			case c.want != "" && (len(broken) != 1 || !strings.Contains(broken[0], c.want)):
				t.Errorf("got %q, want one sentence with %q", broken, c.want)
			}
		})
	}
}

func TestRunCommands(t *testing.T) {
	folder := t.TempDir()
	record, count := filepath.Join(folder, "test.json"), filepath.Join(folder, "count")
	if err := os.WriteFile(count, []byte("2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ci := func(args ...string) error {
		out.Reset()
		return run(args, strings.NewReader(goodRun), &out)
	}
	if err := ci("show", "-record", record); err != nil || !strings.Contains(out.String(), "2 passed, 0 failed, 0 skipped") {
		t.Errorf("show: %v, %q", err, out.String())
	}
	if err := ci("count", "-record", record); err != nil || out.String() != "2\n" {
		t.Errorf("count: %v, %q", err, out.String())
	}
	if err := ci("check", "-record", record, "-count-file", count, "-untested", "proto/pilotage/v1: generated"); err != nil {
		t.Errorf("check: %v, %q", err, out.String())
	}
	if err := ci("check", "-record", record, "-count-file", count); err == nil || !strings.Contains(out.String(), "has no tests") {
		t.Errorf("check without the exemption: %v, %q", err, out.String())
	}
	for _, args := range [][]string{
		nil, {"dance"}, {"count", "-record", filepath.Join(folder, "absent")},
		{"check", "-record", record, "-count-file", record}, {"check", "-untested", "no-reason"},
	} {
		if err := ci(args...); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestShowFailsWithFailedTests(t *testing.T) {
	record := filepath.Join(t.TempDir(), "test.json")
	if err := run([]string{"show", "-record", record}, strings.NewReader(someRun), new(bytes.Buffer)); err == nil {
		t.Error("a run with failures passed")
	}
}
