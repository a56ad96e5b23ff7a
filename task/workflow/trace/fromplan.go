package trace

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
)

// FromPlan makes a workload of an expanded workflow file, which knows neither
// run times nor the sizes of what its tasks make: every task takes runtime, and
// every file whose size is not known has size bytes. sourceSize gives the size of
// a local source; nil, or a negative size, is not known.
func FromPlan(plan *workflow.Plan, runtime time.Duration, size task.Bytes, sourceSize func(path string) task.Bytes) (*Workload, error) {
	b := NewBuilder(plan.Name)
	guessed := 0
	for _, f := range plan.Files {
		known := f.Size
		if known < 0 && f.Source != "" && sourceSize != nil {
			known = sourceSize(f.Source)
		}
		if known < 0 {
			known = size
			guessed++
		}
		b.File(f.Name, known)
	}
	for i := range plan.Tasks {
		t := &plan.Tasks[i]
		r := Recorded{Name: t.ID.Name(), Runtime: runtime, Cores: t.Resources.Cores, Memory: t.Resources.Memory}
		for _, input := range t.Inputs {
			r.Inputs = append(r.Inputs, string(input.LFN))
		}
		for _, output := range t.Outputs {
			r.Outputs = append(r.Outputs, string(output.LFN))
		}
		for _, name := range append(append([]string(nil), r.Inputs...), r.Outputs...) {
			if _, known := b.Find(name); !known {
				b.File(name, size)
				guessed++
			}
		}
		if err := b.Task(r); err != nil {
			return nil, err
		}
	}
	if guessed > 0 {
		b.Note("%d files of unknown size are taken as %s each", guessed, size)
	}
	for _, left := range leftOut(plan, runtime) {
		b.Note("%s", left)
	}
	return b.Workload()
}

// leftOut says what of a plan's tasks no workload has, and so nobody plays.
func leftOut(plan *workflow.Plan, runtime time.Duration) (notes []string) {
	for _, what := range []struct {
		has  func(*task.Task) bool
		text string
	}{
		{func(t *task.Task) bool { return t.Require != "" }, "have a requirement (require), which is not played: any node with the cores and the memory runs them"},
		{func(t *task.Task) bool { return t.Rank != "" }, "have a rank of their own, which is not played: all tasks are ranked by the policy"},
		{func(t *task.Task) bool { return t.Priority != 0 }, "have a priority, which is not played"},
		{func(t *task.Task) bool { return t.Resources.Disk > task.DefaultDisk }, "ask for disk, which is not played: nodes have as much as is asked for"},
		{func(t *task.Task) bool { return t.Walltime > 0 && t.Walltime < runtime }, "have a walltime that ends before the run time taken here: none is ended by it"},
	} {
		count := 0
		for i := range plan.Tasks {
			if what.has(&plan.Tasks[i]) {
				count++
			}
		}
		if count > 0 {
			notes = append(notes, fmt.Sprintf("%d of %d tasks %s", count, len(plan.Tasks), what.text))
		}
	}
	return notes
}
