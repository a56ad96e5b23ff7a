package pilot_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// 004 (section II, micro-scheduling): a rank that looks at what runs beside
// spreads tasks of one kind, although all slots are free at once and the tasks
// come together. Without it the oldest tasks, which are of one kind, share pilots.
func TestRanksBalanceWhatRunsBeside(t *testing.T) {
	const count = 3 // pilots of two slots, and tasks of each kind
	beside := func(rank string) (alike int) {
		w := newWorld(t.Errorf)
		for i := range count {
			w.add(task.PilotID(fmt.Sprint("p", i)), 2, nil)
		}
		w.elect(w.node("p0"))
		w.run(time.Second) // rows and states have come
		kind := make(map[task.ID]task.Bound)
		var tasks []task.Task
		for _, bound := range []task.Bound{task.IOBound, task.CPUBound} {
			for i := range count {
				name := fmt.Sprint(bound, i)
				w.runs[name] = time.Minute
				kind[id(name)] = bound
				tasks = append(tasks, task.Task{
					ID: id(name), Shell: "true", Walltime: time.Hour, Bound: bound, Rank: rank,
					Resources: task.Resources{Cores: 1, Memory: task.MiB},
				})
			}
		}
		w.queue.submit(tasks...)
		w.run(10 * time.Second)
		for _, n := range w.live() {
			if running := n.worker.Running(); running != 2 {
				t.Errorf("with rank %q %s runs %d payloads", rank, n.id, running)
			}
			of := make(map[task.Bound]int)
			for given := range n.given {
				of[kind[given]]++
			}
			if of[task.IOBound] != 1 || of[task.CPUBound] != 1 {
				alike++
			}
		}
		return alike
	}
	if alike := beside(`task.bound == "io" ? -pilot.io_bound : -pilot.cpu_bound`); alike > 0 {
		t.Errorf("%d pilots run tasks of one kind", alike)
	}
	if alike := beside(""); alike == 0 {
		t.Error("tasks are spread without such a rank, too: this test shows nothing")
	}
	// An expression of the pilot alone has one value for a whole class.
	if alike := beside("pilot.free_cores - 2 * pilot.io_bound"); alike > 0 {
		t.Errorf("by free cores %d pilots run tasks of one kind", alike)
	}
}
