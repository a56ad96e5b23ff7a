package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/pilot/factory"
	"github.com/pilotage-grid/pilotage/task"
)

// The file with several shapes that docs/factory.md shows is one that is read, and
// keys that are not known are refused.
func TestFactoryReadsTheFileOfItsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/factory.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/factory.md shows no file")
	}
	f := &factorySettings{Every: 15 * time.Second, flags: factoryFlags{from: filepath.Join(t.TempDir(), "factory.yaml"), folder: t.TempDir()}}
	write := func(text string) {
		if err := os.WriteFile(f.flags.from, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	config, err := f.complete(testApp(), &identity.AccessFile{Site: "siteA"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if config.Max != 200 || f.Idle != 10*time.Minute || len(config.Shapes) != 2 {
		t.Fatalf("read %+v, idle %s", config, f.Idle)
	}
	fat := config.Shapes[1]
	if fat.Name != "fat" || fat.Resources.Cores != 8 || fat.Resources.Memory != 128*task.GiB || fat.Walltime != 24*time.Hour || fat.Max != 10 || len(fat.Arguments) != 4 {
		t.Errorf("the second shape is %+v", fat)
	}
	write(text + "colour: red\n")
	if _, err := (&factorySettings{flags: factoryFlags{from: f.flags.from}}).complete(testApp(), &identity.AccessFile{}, nil); err == nil || !strings.Contains(err.Error(), "colour") {
		t.Errorf("an unknown key: %v", err)
	}
}

// A job that dies before its check has said nothing good of the node.
func TestAFactorysCheckNeedsAReport(t *testing.T) {
	for report, good := range map[string]bool{
		"CHECK  RESULT  DETAIL\ndisk   ok      much\n": true, "CHECK  RESULT  DETAIL\ndisk   FAILED  none\n": false,
		"pilotage: root has started this pilot\n": false, "": false,
	} {
		if err := judgeReport(report); (err == nil) != good || err != nil && exitCode(t.Context(), err) != exitUnfit {
			t.Errorf("%q: %v", report, err)
		}
	}
}

// What a factory found last is in its metrics.
func TestFactoryMetricsAreOfTheNewestStatus(t *testing.T) {
	registry, observe := factoryMetrics("siteA")
	observe(factory.Status{
		Tasks: 5, Unmet: []factory.Unmet{{Tasks: 2}, {Tasks: 1}}, Paused: "jobs are refused", Listing: 1500 * time.Millisecond,
		Jobs: []factory.Job{{State: factory.Pending}, {State: factory.Running}, {State: factory.Running}},
	})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "pilotage_")
			for _, label := range metric.GetLabel() {
				if label.GetName() == "state" {
					name += " " + label.GetValue()
				}
			}
			got[name] = metric.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"factory_waiting_tasks": 5, "factory_unmet_tasks": 3, "factory_paused": 1, "factory_excluded_nodes": 0, "factory_listing_age_seconds": 1.5, "build_info": 1,
		"factory_jobs " + string(factory.Planned): 0, "factory_jobs " + string(factory.Pending): 1, "factory_jobs " + string(factory.Running): 2,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestFactoryCheckSendsThePilotOfItsFactory: with the same arguments.
func TestFactoryCheckSendsThePilotOfItsFactory(t *testing.T) {
	settings := &factorySettings{}
	check := factoryCommands{&app{}}.check(settings)
	if err := check.ParseFlags([]string{"--batch", "local", "--pilot=--payload-user=nobody", "--pilot=--shm"}); err != nil {
		t.Fatal(err)
	}
	command := settings.command(&factory.Shape{})
	for _, want := range []string{"--payload-user=nobody", "--shm"} {
		if !strings.Contains(command, want) {
			t.Errorf("%q has no %s", command, want)
		}
	}
}
