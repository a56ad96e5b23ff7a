package worker

import (
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// copying is what a worker has been told to copy into its cache before tasks
// ask for it.
type copying struct {
	waiting  []task.File
	underWay map[task.FileKey]task.File // by the key of the task list
}

const (
	// copiesAtOnce is how many copies a pilot makes side by side: its tasks'
	// own inputs come first.
	copiesAtOnce = 2
	// maxCopies is how many may wait.
	maxCopies = 64
)

// replicates takes from the site's settings whether its master goes by what
// pilots have: the task list is then answered with that, too.
func (w *Worker) replicates(s task.SiteSettings) {
	on := s.Replicate != "" && !s.Central()
	if on == w.evaluator.TellsFiles() {
		return
	}
	w.evaluator.TellFiles(on)
	if on {
		w.tellRow()
		return
	}
	w.copying.waiting = nil
}

// replicate carries out a master's order, as far as it is not being carried
// out already.
func (w *Worker) replicate(m message.Replicate) {
	for _, file := range m.Drops {
		w.act(DropCopy{File: file})
	}
	coming := task.Bytes(0)
	for _, file := range w.copying.waiting {
		coming += max(0, file.Size)
	}
	for _, file := range w.copying.underWay {
		coming += max(0, file.Size)
	}
	for _, file := range m.Files {
		key := message.ListKey(file)
		if _, is := w.copying.underWay[key]; is || w.copying.waits(key) {
			continue
		}
		coming += max(0, file.Size)
		switch {
		case w.stopped != "":
			w.answerCopy(CopiedIn{File: file, Failure: "the pilot takes no more work: " + w.stopped})
		case len(w.copying.waiting) >= maxCopies:
			w.answerCopy(CopiedIn{File: file, Failure: "the pilot has many copies to make"})
		case w.cache.Capacity > 0 && coming > w.cache.Capacity/message.ReplicaShare:
			w.answerCopy(CopiedIn{File: file, Failure: "the copies would fill the pilot's cache"})
			coming -= max(0, file.Size)
		default:
			w.copying.waiting = append(w.copying.waiting, file)
		}
	}
}

func (c *copying) waits(key task.FileKey) bool {
	for _, file := range c.waiting {
		if message.ListKey(file) == key {
			return true
		}
	}
	return false
}

// passCopying begins copies, a few at a time.
func (w *Worker) passCopying() {
	for len(w.copying.waiting) > 0 && len(w.copying.underWay) < copiesAtOnce {
		file := w.copying.waiting[0]
		w.copying.waiting = w.copying.waiting[1:]
		w.copying.underWay[message.ListKey(file)] = file
		w.act(CopyIn{File: file})
	}
}

// copiedIn tells the master what has become of a copy.
func (w *Worker) copiedIn(e CopiedIn) {
	delete(w.copying.underWay, message.ListKey(e.File))
	w.answerCopy(e)
}

func (w *Worker) answerCopy(e CopiedIn) {
	answer := message.ReplicatedAnswer{Key: message.ListKey(e.File), Copied: e.Copied, Failure: e.Failure}
	if e.Copied {
		answer.Bytes = e.Bytes
	}
	w.report.Replicated = append(w.report.Replicated, answer)
	w.soon(w.config.ReportDelay)
}
