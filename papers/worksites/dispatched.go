package worksites

import (
	"strconv"

	"github.com/pilotage-grid/pilotage/papers/dispatch"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// Dispatcher is a scheduler of package dispatch that answers requests from a
// list of waiting tasks.
type Dispatcher interface {
	Add(dispatch.Task)
	Next(dispatch.Request) (no uint64, found bool)
}

// dispatched lets the product's schedulers serve simulated workers.
type dispatched struct {
	dispatcher Dispatcher
	names      []string // of workers
	sites      []string // by worker
	files      []task.FileKey
}

// Dispatch puts a workload into a dispatcher and makes a Scheduler of it.
func Dispatch(config *Config, dispatcher Dispatcher) Scheduler {
	d := &dispatched{dispatcher: dispatcher, files: fileKeys(config.Workload)}
	d.names, d.sites = names(config)
	for _, t := range tasksOf(config.Workload, d.files) {
		dispatcher.Add(t)
	}
	return d
}

func fileKeys(w *trace.Workload) []task.FileKey {
	keys := make([]task.FileKey, len(w.Files))
	for f := range keys {
		keys[f] = task.FileKey("lfn:" + w.Files[f].Name)
	}
	return keys
}

// names of workers, and of each one's site.
func names(config *Config) (workers, sites []string) {
	for i, site := range config.SiteOf() {
		workers = append(workers, "w"+strconv.Itoa(i))
		sites = append(sites, "s"+strconv.Itoa(site))
	}
	return workers, sites
}

func tasksOf(w *trace.Workload, keys []task.FileKey) []dispatch.Task {
	tasks := make([]dispatch.Task, len(w.Tasks))
	for i := range w.Tasks {
		inputs := w.Tasks[i].Inputs
		tasks[i] = dispatch.Task{No: uint64(i), Files: make([]dispatch.File, len(inputs))}
		for j, f := range inputs {
			tasks[i].Files[j] = dispatch.File{Key: keys[f], Size: w.Files[f].Size}
		}
	}
	return tasks
}

func (d *dispatched) Request(worker int, evicted []int32) (int32, bool) {
	no, found := d.dispatcher.Next(dispatch.Request{Worker: d.names[worker], Site: d.sites[worker], Evicted: d.keys(evicted)})
	return int32(no), found
}

func (d *dispatched) keys(files []int32) []task.FileKey {
	keys := make([]task.FileKey, len(files))
	for i, f := range files {
		keys[i] = d.files[f]
	}
	return keys
}

// Done has nothing to cancel: each task is given once.
func (d *dispatched) Done(int, int32) []int { return nil }
