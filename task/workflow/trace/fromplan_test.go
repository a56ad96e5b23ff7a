package trace_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// What a workload cannot hold of a plan is said, with the number of its tasks.
func TestWhatIsLeftOutOfAPlanIsSaid(t *testing.T) {
	plain := task.Task{ID: "w-aaaaaaaaaa/plain", Resources: task.Resources{Cores: 1, Disk: task.DefaultDisk}, Walltime: task.DefaultWalltime}
	choosy, large, short := plain, plain, plain
	choosy.ID, choosy.Require, choosy.Rank = "w-aaaaaaaaaa/choosy", `"gpu" in pilot.features`, "rest"
	large.ID, large.Resources.Disk, large.Priority = "w-aaaaaaaaaa/large", task.TiB, 3
	short.ID, short.Walltime, short.Require = "w-aaaaaaaaaa/short", 5*time.Second, "pilot.cores > 99"
	w, err := trace.FromPlan(&workflow.Plan{Name: "w", Tasks: []task.Task{plain, choosy, large, short}}, time.Minute, task.MiB, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 of 4 tasks have a requirement", "1 of 4 tasks have a rank", "1 of 4 tasks have a priority", "1 of 4 tasks ask for disk", "1 of 4 tasks have a walltime"} {
		if !slices.ContainsFunc(w.Notes, func(note string) bool { return strings.HasPrefix(note, want) }) {
			t.Errorf("no note that %s: %q", want, w.Notes)
		}
	}
	if w, err = trace.FromPlan(&workflow.Plan{Name: "w", Tasks: []task.Task{plain}}, time.Minute, task.MiB, nil); err != nil || len(w.Notes) > 0 {
		t.Errorf("of a plain task %q is said, %v", w.Notes, err)
	}
}
