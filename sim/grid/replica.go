package grid

import (
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// copyIn makes a replica for the site's replica policies, as inputs of tasks are
// fetched.
func (n *node) copyIn(file task.File) {
	n.fetcher.want(file, func(source task.Source, err error) {
		done := worker.CopiedIn{File: file}
		switch {
		case err != nil:
			done.Failure = err.Error()
		case source != task.SourceLocal:
			done.Copied, done.Bytes = true, file.Size
			n.sums.Replicas++
		}
		n.timeline.After(0, func() { n.stepWorker(done) }) // not within the planner's step
	})
}

// dropCopy lets a replica go, unless something here needs the file.
func (n *node) dropCopy(file task.File) {
	if n.cached.Evict(file.Key()) {
		n.timeline.After(0, func() { n.changed([]task.FileKey{file.Key()}) })
	}
}
