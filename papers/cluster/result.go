package cluster

import (
	"time"

	"github.com/pilotage-grid/pilotage/sim"
)

// TaskResult is how a task came out.
type TaskResult struct {
	Node    int
	Local   bool // all files were on its node
	Waited  time.Duration
	Started time.Duration
	Read    time.Duration // all its files
	Ended   time.Duration
	Bytes   float64
}

// Throughput is what the task saw while it read, in bytes a second.
func (t *TaskResult) Throughput() float64 {
	if t.Read <= 0 {
		return 0
	}
	return t.Bytes / t.Read.Seconds()
}

// Copy is a replica that was made.
type Copy struct {
	File, From, To int
	Begun, Over    time.Duration
}

// Drop is a replica that was taken away.
type Drop struct {
	File, Node int
	At         time.Duration
}

// Result is how a run came out.
type Result struct {
	Makespan    time.Duration
	Tasks       []TaskResult // by number
	Copies      []Copy       // that arrived, in that order
	Drops       []Drop
	RemoteBytes float64 // read over the network
	CopiedBytes float64
	Hash        string
	Bars        []sim.Bar
}

// Local is the number of tasks that read nothing over the network.
func (r *Result) Local() (count int) {
	for _, t := range r.Tasks {
		if t.Local {
			count++
		}
	}
	return count
}

// Throughput is the mean of what the tasks saw (000, section V-A).
func (r *Result) Throughput() (mean float64) {
	for i := range r.Tasks {
		mean += r.Tasks[i].Throughput() / float64(len(r.Tasks))
	}
	return mean
}
