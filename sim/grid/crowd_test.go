package grid_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/sim/grid"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// The inputs of what a node runs and has waiting need three times its cache,
// those of one task fit: the tasks run, a few at a time, and none fails.
func TestTasksTakeTurnsInATightCache(t *testing.T) {
	w := &trace.Workload{Name: "tight"}
	for i := range 60 {
		w.Files = append(w.Files, trace.File{Name: fmt.Sprintf("in.%02d", i), Size: 100 * task.MiB, Producer: trace.External})
	}
	for i := range 40 {
		var inputs []int32
		for k := range 10 {
			inputs = append(inputs, int32((i*7+k)%60))
		}
		w.Tasks = append(w.Tasks, trace.Task{Name: fmt.Sprintf("t.%02d", i), Inputs: inputs, Runtime: time.Second, Cores: 1})
	}
	tight := pilots(2, func(_ int, n *grid.Node) { n.Slots, n.Cores, n.Cache = 4, 4, 1500*task.MiB })
	r := run(t, grid.Config{Workload: w, Sites: []grid.Site{tight}, Seed: 3})
	if r.Starts != 40 {
		t.Errorf("%d starts of 40 tasks", r.Starts)
	}
	if r.Makespan > 10*time.Minute {
		t.Errorf("it took %s", r.Makespan)
	}
}
