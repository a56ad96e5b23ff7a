package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotage-grid/pilotage/sim/grid"
	"github.com/pilotage-grid/pilotage/task"
)

func TestSimulatedSitesAreReadAndChanged(t *testing.T) {
	sites, err := parseSites([]string{"siteA,nodes=3,slots=2,cache=1GiB,speed=0.5,fail=30m,serial=yes", "siteB"})
	if err != nil {
		t.Fatal(err)
	}
	a, b := sites[0], sites[1]
	if len(a.Nodes) != 3 || a.Nodes[0].Slots != 2 || a.Nodes[2].Cores != 2 || a.Nodes[0].FailsAt != 30*time.Minute || a.Nodes[1].FailsAt != 0 || !a.OneAtATime || len(b.Nodes) != 4 {
		t.Errorf("%+v %+v", a, b)
	}
	changed, err := changeSites(sites, "cache=2x")
	if err != nil || changed[0].Nodes[1].Cache != 2*task.GiB || sites[0].Nodes[1].Cache != task.GiB {
		t.Errorf("%v %+v", err, changed)
	}
	if changed, err = changeSites(sites, "nodes=0.5x"); err != nil || len(changed[0].Nodes) != 2 {
		t.Errorf("%v %+v", err, changed)
	}
	if changed, err = changeSites(sites, "down=siteA"); err != nil || len(changed) != 1 || changed[0].Name != "siteB" {
		t.Errorf("%v %+v", err, changed)
	}
	for want, texts := range map[string][]string{
		`key "colour"`: {"siteA,colour=red"}, "nodes is": {"siteA,nodes=0"}, "speed is": {"siteA,speed=-1"}, "two sites": {"siteA", "siteA"}, "serial is": {"siteA,serial=maybe"},
	} {
		if _, err := parseSites(texts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", texts, err)
		}
	}
	for _, change := range []string{"cache", "cache=2", "cache=-1x", "colour=2x", "down=siteC"} {
		if _, err := changeSites(sites, change); err == nil {
			t.Errorf("what-if %s is accepted", change)
		}
	}
	for want, down := range map[string][]grid.Site{"name one of siteA, siteB": sites, "no site would be left": {{Name: "siteC"}}} {
		if _, err := changeSites(down, "down=siteC"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("down=siteC: %v, want %q", err, want)
		}
	}
}

// The shortest makespan wins, unless one that is as short moves less.
func TestAdviceWeighsTimeThenBytes(t *testing.T) {
	run := func(policy string, seconds, bytes float64) played {
		return played{Policy: policy, figures: &figures{MakespanSeconds: seconds, StorageBytes: bytes, result: &grid.Result{}}}
	}
	for want, runs := range map[string][]played{
		"a": {run("a", 100, 5), run("b", 102, 1)},
		"b": {run("a", 100, 5), run("b", 100.5, 1), run("c", 100.6, 2)},
		"c": {{Policy: "a", Error: "no"}, run("b", 100.5, 1), run("c", 100, 1), run("d", 100, 1)},
	} {
		if got, known := advise(runs); got.Policy != want || !known {
			t.Errorf("got %q, want %q", got.Policy, want)
		}
	}
	if got, known := advise([]played{{Policy: "a", Error: "no"}}); known {
		t.Errorf("%q is advised, which could not be played", got.Policy)
	}
	tied := []played{run("a", 100, 1), run("b", 100, 1), run("c", 100, 2)}
	if lines := adviseAll(tied, 3); len(lines) != 1 || !strings.HasPrefix(lines[0], "take a (b as good): ") {
		t.Errorf("two as good as each other: %q", lines)
	}
}

// A what-if is set beside the same policy as it is, its best beside the best.
func TestWhatIfsAreComparedWithThingsAsTheyAre(t *testing.T) {
	run := func(policy, whatIf string, seconds, bytes float64) played {
		return played{Policy: policy, WhatIf: whatIf, figures: &figures{MakespanSeconds: seconds, StorageBytes: bytes, result: &grid.Result{Makespan: time.Duration(seconds * float64(time.Second))}}}
	}
	runs := []played{run("a", "", 100, 4), run("b", "", 200, 4), run("a", "cache=2x", 90, 3), run("b", "cache=2x", 75, 5)}
	runs[3].against(runs[1])
	if runs[3].MakespanChange != -0.625 || runs[3].BytesChange != 0.25 {
		t.Errorf("%+v", runs[3])
	}
	lines := adviseAll(runs, 2)
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "take a: 1m40s, 4B moved") || lines[1] != "with cache=2x take b: 1m15s (-25.0 %), 5B moved (+25.0 %)" {
		t.Errorf("%q", lines)
	}
}

// Who asks what a failing node would do still sees the rest, and is told what
// could not be played.
func TestSimRunShowsWhatCouldBePlayed(t *testing.T) {
	chain := "../../task/workflow/wfformat/testdata/chain.json"
	args := []string{"sim", "run", chain, "--site", "a,nodes=1,fail=1ms", "--site", "b,nodes=1", "--policy", "locality", "--what-if", "down=b", "--what-if", "speed=1x"}
	table, err := call(t, args...)
	if err == nil || exitCode(t.Context(), err) != exitUsage || !strings.Contains(err.Error(), "1 of 3 runs") || !strings.Contains(err.Error(), "policy locality with down=b") {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"locality  as it is", "failed", "\ntake locality", "with speed=1x take locality"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	document, err := call(t, append([]string{"--output", "jsonl"}, args...)...)
	if err == nil || !strings.Contains(document, `"what_if":"down=b","error":`) {
		t.Errorf("%v\n%s", err, document)
	}
	if table, err = call(t, "sim", "run", chain, "--site", "a,nodes=1,fail=1ms"); err == nil || table != "" {
		t.Errorf("nothing could be played: %v\n%s", err, table)
	}
}

// The settings of sites are those of a live site, and refused alike.
func TestSimRunTriesSettingsOfSites(t *testing.T) {
	chain := "../../task/workflow/wfformat/testdata/chain.json"
	for _, given := range []string{"--solver exact", "--solver sequential", "--locality-wait 0", "--replicate alpha(2)"} {
		if out, err := call(t, append([]string{"sim", "run", chain, "--policy", "locality"}, strings.Fields(given)...)...); err != nil || !strings.Contains(out, "take locality") {
			t.Errorf("%s: %v\n%s", given, err, out)
		}
	}
	for given, want := range map[string]string{
		"--solver best": "greedy, exact", "--locality-wait -5s": "up to 1h", "--replicate alpha": "alpha(15)",
	} {
		if _, err := call(t, append([]string{"sim", "run", chain, "--policy", "locality"}, strings.Fields(given)...)...); err == nil || exitCode(t.Context(), err) != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", given, err, want)
		}
	}
	var trial siteTrial
	command := simCommands{testApp()}.replay()
	if err := command.ParseFlags([]string{"--locality-wait", "1m", "--replicate", "alpha(2)"}); err != nil {
		t.Fatal(err)
	}
	trial.wait, trial.replicate = time.Minute, "alpha(2)"
	if err := trial.read(command.Flags()); err != nil {
		t.Fatal(err)
	}
	settings := task.SiteSettings{SiteScheduling: task.SiteScheduling{Solver: "exact"}}
	if trial.change(&settings.Solver, &settings.LocalityWait, &settings.Replicate); settings != (task.SiteSettings{SiteScheduling: task.SiteScheduling{Solver: "exact", LocalityWait: time.Minute, Replicate: "alpha(2)"}}) {
		t.Errorf("a replay has the settings %+v", settings)
	}
}

// Without a terminal a long run says now and then how far it is, a short one
// nothing.
func TestRunsAreCountedWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testApp()
		c := a.out.countRuns(3)
		said := func() string {
			c.mu.Lock()
			defer c.mu.Unlock()
			return a.out.stderr.(*bytes.Buffer).String()
		}
		<-time.After(countEvery - time.Second)
		c.add()
		synctest.Wait()
		if told := said(); told != "" {
			t.Errorf("told %q", told)
		}
		<-time.After(countEvery + 2*time.Second)
		synctest.Wait()
		c.end()
		if told := said(); told != "1 of 3 runs are over after 30s\n1 of 3 runs are over after 1m0s\n" {
			t.Errorf("told %q", told)
		}
	})
}

func TestSimRunComparesPoliciesAndSaysWhichToTake(t *testing.T) {
	trace, out := "../../task/workflow/wfformat/testdata/chain.json", t.TempDir()
	table, err := call(t, "sim", "run", trace, "--site", "siteA,nodes=2", "--policy", "rest,locality", "--what-if", "speed=2x", "--out", out)
	if err != nil || !strings.Contains(table, "\ntake ") || strings.Count(table, "speed=2x") != 3 || !strings.Contains(table, "with speed=2x take") {
		t.Errorf("%v\n%s", err, table)
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil || strings.Count(string(page), "<svg") != 4 {
		t.Errorf("%v: the report has %d Gantt charts, want 4", err, strings.Count(string(page), "<svg"))
	}
	first, err := call(t, "--output", "json", "sim", "run", trace)
	second, _ := call(t, "--output", "json", "sim", "run", trace)
	if err != nil || first != second || !strings.Contains(first, `"makespan_seconds"`) {
		t.Errorf("%v: two runs of one seed differ, or are no JSON:\n%s%s", err, first, second)
	}
	for _, wrong := range [][]string{
		{"run", "none.json"}, {"run", "simsite.go"}, {"run", trace, "--policy", "fastest("}, {"run", trace, "--site", "a,x=1"},
		{"run", trace, "--what-if", "cache"},
	} {
		if _, err := call(t, append([]string{"sim"}, wrong...)...); err == nil || exitCode(t.Context(), err) != exitUsage {
			t.Errorf("sim %s: %v", strings.Join(wrong, " "), err)
		}
	}
}
