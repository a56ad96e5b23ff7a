package worksites

import (
	"github.com/pilotage-grid/pilotage/papers/dispatch"
)

// affinity lets the task-centric baseline serve simulated workers.
type affinity struct {
	dispatched
	scheduler *dispatch.StorageAffinity
	numbers   map[string]int // of workers by name
}

// StorageAffinity shares a workload out to the queues of all workers up front
// (001, section 2.3), counting files or bytes.
func StorageAffinity(config *Config, bytes bool) Scheduler {
	a := &affinity{dispatched: dispatched{files: fileKeys(config.Workload)}, numbers: make(map[string]int)}
	a.names, a.sites = names(config)
	workers := make([]dispatch.Worker, len(a.names))
	for i, name := range a.names {
		workers[i] = dispatch.Worker{Name: name, Site: a.sites[i]}
		a.numbers[name] = i
	}
	a.scheduler = dispatch.NewStorageAffinity(workers, bytes)
	a.scheduler.Add(tasksOf(config.Workload, a.files)...)
	return a
}

func (a *affinity) Request(worker int, evicted []int32) (int32, bool) {
	no, found := a.scheduler.Next(dispatch.Request{Worker: a.names[worker], Site: a.sites[worker], Evicted: a.keys(evicted)})
	return int32(no), found
}

func (a *affinity) Done(worker int, of int32) (cancel []int) {
	for _, name := range a.scheduler.Done(a.names[worker], uint64(of)) {
		cancel = append(cancel, a.numbers[name])
	}
	return cancel
}
