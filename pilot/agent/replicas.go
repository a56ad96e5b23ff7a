package agent

import (
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// copyIn makes a replica, as inputs of tasks are fetched: from other pilots
// first. It is pinned until it is there, and is evicted like any other file.
func (a *Agent) copyIn(file task.File) {
	a.group.Go(func() error {
		done := worker.CopiedIn{File: file}
		staged, err := a.fetcher.Stage(a.context, []task.File{file})
		if err != nil {
			done.Failure = err.Error()
			a.log.Warn("a replica cannot be made", "file", file.LFN, "error", err)
		} else {
			entry, source := staged[0].Entry, staged[0].Source
			staged[0].Release()
			done.Copied, done.Bytes = source != task.SourceLocal, entry.Size
			a.aliases.learn(file.LFN, entry.Digest)
			a.cacheChanged([]task.FileKey{task.KeyOf(file.LFN, task.Digest{})})
			a.log.Debug("a replica is here", "file", file.LFN, "from", source.String(), "bytes", entry.Size)
		}
		a.mailbox.post(func() { a.stepWorker(done) })
		return nil
	})
}

// dropCopy lets a replica go, unless something here needs the file.
func (a *Agent) dropCopy(file task.File) {
	for _, key := range []task.FileKey{file.Key(), a.aliases.resolve(task.KeyOf(file.LFN, task.Digest{}))} {
		if a.cache.Evict(key) {
			a.log.Debug("a replica was dropped", "file", file.LFN)
			return
		}
	}
}
