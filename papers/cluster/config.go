package cluster

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/replica"
	"github.com/pilotage-grid/pilotage/task"
)

// Hardware is what all nodes are.
type Hardware struct {
	Slots int
	CPUs  int // that the load average is divided by
	// Local is how fast a node reads files that it holds, in bytes a second.
	Local float64
	// WhileServing is the part of Local that is left while the node serves a
	// remote reader, or sends or receives a copy.
	WhileServing float64
	Card         float64       // of the network card, each way, bytes a second
	Start        time.Duration // of a task, from its slot to its first read
	Room         task.Bytes    // for files; 0: no limit
}

// File is a file that tasks read.
type File struct {
	Size    task.Bytes
	Holders []int // nodes that have it from the start
}

// Task is one task. Its number is its place in the workload.
type Task struct {
	Queue    string
	Files    []int
	Compute  time.Duration // after the files are read
	Enters   time.Duration // the queue; never before the task in front of it
	Priority int
}

// FIFO is the solver of the batch system alone: the oldest task goes to the free
// node with the least load, whatever it reads.
const FIFO = "fifo"

// Config describes a run.
type Config struct {
	Nodes    int
	Hardware Hardware
	Files    []File
	Tasks    []Task
	// Solver is FIFO or one of matcher.ParseSolver with Rank. "" leaves all
	// starts to the replica policies.
	Solver, Rank string
	// Replicas is a chain of replica policies (replica.ParseChain), "" none.
	Replicas string
	// KeepReads lets nodes keep the files that they read over the network, as
	// the caches of pilots do; what was used least recently gives way, but not
	// the last replica of a file. In Gfarm reading makes no copy.
	KeepReads bool
	// SessionEvery is the period of scheduling sessions (002), in which replica
	// policies run first and see all waiting tasks. 0: tasks are dispatched when
	// they enter and when a slot is free, and the replica policies run when
	// tasks have entered (003), and count those that still wait.
	SessionEvery time.Duration
	KeepBars     bool // of the Gantt chart, one row for each task
}

func (c *Config) check() error {
	h := c.Hardware
	if c.Nodes < 1 || h.Slots < 1 || h.CPUs < 1 || !(h.Local > 0) || !(h.Card > 0) || !(h.WhileServing > 0) || h.WhileServing > 1 {
		return fmt.Errorf("nodes, slots, CPUs, local speed and card must be above 0, and what is left while serving above 0 and at most 1")
	}
	for i, f := range c.Files {
		if len(f.Holders) == 0 {
			return fmt.Errorf("no node holds file %d", i)
		}
		for _, node := range f.Holders {
			if node < 0 || node >= c.Nodes {
				return fmt.Errorf("file %d: there is no node %d", i, node)
			}
		}
	}
	for i, t := range c.Tasks {
		for _, file := range t.Files {
			if file < 0 || file >= len(c.Files) {
				return fmt.Errorf("task %d reads file %d, which does not exist", i, file)
			}
		}
		if i > 0 && t.Enters < c.Tasks[i-1].Enters {
			return fmt.Errorf("task %d enters before task %d", i, i-1)
		}
	}
	return nil
}

// dispatcher is the scheduler of the settings, nil for none.
func (w *world) newDispatcher() (dispatcher, error) {
	switch w.Solver {
	case "":
		return nil, nil
	case FIFO:
		return fifo{}, nil
	}
	choice, err := matcher.ParseSolver(w.Solver)
	if err != nil {
		return nil, err
	}
	if err := choice.CheckRank(w.Rank); err != nil {
		return nil, err
	}
	if choice.Random() {
		return nil, fmt.Errorf("solver %s draws at random, which is not played here", choice)
	}
	return newRanked(w, choice.Solver(nil))
}

func (c *Config) newPlanner() (replica.Planner, error) {
	if c.Replicas == "" {
		return nil, nil
	}
	return replica.ParseChain(c.Replicas)
}
