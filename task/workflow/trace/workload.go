package trace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// External is the producer of a file that exists before the workload runs.
const External int32 = -1

// File is one file of a workload.
type File struct {
	Name     string
	Size     task.Bytes
	Producer int32 // index of the task that makes it, or External
}

// Task is one task of a workload.
type Task struct {
	Name    string
	Inputs  []int32 // indices of files, without repetition
	Outputs []int32
	// Runtime is the payload's time on a machine of speed 1, without transfers.
	Runtime time.Duration
	Cores   int        // at least 1
	Memory  task.Bytes // 0 when the recording does not tell
}

// Workload is a set of tasks and their files. A task may run when all its
// inputs exist.
type Workload struct {
	Name  string
	Files []File
	Tasks []Task
	// Notes say what the reader had to decide, for people.
	Notes []string
}

// Cycle tells that tasks wait for one another.
type Cycle struct {
	Tasks []string // each before the one that waits for it; the last comes before the first
}

// Error names the tasks of the cycle.
func (c *Cycle) Error() string {
	return fmt.Sprintf("tasks wait for one another: %s -> %s: each reads what the one before it makes", strings.Join(c.Tasks, " -> "), c.Tasks[0])
}

// Order lists the tasks such that each comes after those whose files it reads,
// in the order of the workload where there is a choice. The error is a *Cycle.
func (w *Workload) Order() ([]int32, error) {
	waits := make([]int32, len(w.Tasks))
	readers := w.Readers()
	for i := range w.Tasks {
		for _, f := range w.Tasks[i].Inputs {
			if w.Files[f].Producer != External {
				waits[i]++
			}
		}
	}
	order := make([]int32, 0, len(w.Tasks))
	for i := range waits {
		if waits[i] == 0 {
			order = append(order, int32(i))
		}
	}
	for next := 0; next < len(order); next++ {
		for _, f := range w.Tasks[order[next]].Outputs {
			for _, reader := range readers[f] {
				if waits[reader]--; waits[reader] == 0 {
					order = append(order, reader)
				}
			}
		}
	}
	if len(order) < len(w.Tasks) {
		return nil, w.cycle(waits)
	}
	return order, nil
}

// cycle finds one among the tasks that still wait: from any of them, going
// back to a producer that waits too must return somewhere.
func (w *Workload) cycle(waits []int32) *Cycle {
	at := int32(0)
	for waits[at] == 0 {
		at++
	}
	seen := make(map[int32]int)
	var path []int32
	for {
		if from, found := seen[at]; found {
			path = path[from:]
			break
		}
		seen[at] = len(path)
		path = append(path, at)
		for _, f := range w.Tasks[at].Inputs {
			if p := w.Files[f].Producer; p != External && waits[p] > 0 {
				at = p
				break
			}
		}
	}
	slices.Reverse(path)
	first := slices.Index(path, slices.Min(path))
	cycle := &Cycle{}
	for _, t := range slices.Concat(path[first:], path[:first]) {
		cycle.Tasks = append(cycle.Tasks, w.Tasks[t].Name)
	}
	return cycle
}

// Readers lists for each file the tasks that read it, in order.
func (w *Workload) Readers() [][]int32 {
	counts, total := make([]int32, len(w.Files)), 0
	for i := range w.Tasks {
		for _, f := range w.Tasks[i].Inputs {
			counts[f]++
		}
		total += len(w.Tasks[i].Inputs)
	}
	readers, all := make([][]int32, len(w.Files)), make([]int32, total)
	for f, n := range counts {
		readers[f], all = all[:0:n], all[n:]
	}
	for i := range w.Tasks {
		for _, f := range w.Tasks[i].Inputs {
			readers[f] = append(readers[f], int32(i))
		}
	}
	return readers
}

// Finals lists the files that tasks make and none reads, in order.
func (w *Workload) Finals() []int32 {
	var finals []int32
	for f, readers := range w.Readers() {
		if len(readers) == 0 && w.Files[f].Producer != External {
			finals = append(finals, int32(f))
		}
	}
	return finals
}
