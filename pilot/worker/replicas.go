package worker

import (
	"slices"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// replicas are what a worker has been told to copy into its cache before tasks
// ask for it.
type replicas []replica

type replica struct {
	task.File
	begun bool
}

const (
	// copiesAtOnce is how many copies a pilot makes side by side: its tasks'
	// own inputs come first.
	copiesAtOnce = 2
	// maxCopies is how many may wait.
	maxCopies = 64
)

// ordered carries out a master's order, as far as it is not being carried out
// already. A pilot that takes no more work makes no copies, for a reason.
func (r *replicas) ordered(at *step, m message.Replicate, stopped string, capacity task.Bytes) {
	for _, file := range m.Drops {
		at.act(DropCopy{File: file})
	}
	coming, waiting := task.Bytes(0), len(*r)-r.begun()
	for _, file := range *r {
		coming += max(0, file.Size)
	}
	for _, file := range m.Files {
		if slices.ContainsFunc(*r, func(known replica) bool { return message.ListKey(known.File) == message.ListKey(file) }) {
			continue
		}
		coming += max(0, file.Size)
		switch {
		case stopped != "":
			at.replicated(CopiedIn{File: file, Failure: "the pilot takes no more work: " + stopped})
		case waiting >= maxCopies:
			at.replicated(CopiedIn{File: file, Failure: "the pilot has many copies to make"})
		case capacity > 0 && coming > capacity/message.ReplicaShare:
			at.replicated(CopiedIn{File: file, Failure: "the copies would fill the pilot's cache"})
			coming -= max(0, file.Size)
		default:
			*r = append(*r, replica{File: file})
			waiting++
		}
	}
}

func (r replicas) begun() (n int) {
	for _, copied := range r {
		if copied.begun {
			n++
		}
	}
	return n
}

// pass begins copies, a few at a time.
func (r replicas) pass(at *step) {
	for i := 0; i < len(r) && r.begun() < copiesAtOnce; i++ {
		if !r[i].begun {
			r[i].begun = true
			at.act(CopyIn{File: r[i].File})
		}
	}
}

func (r *replicas) copiedIn(at *step, e CopiedIn) {
	r.forget(func(known replica) bool { return known.begun && message.ListKey(known.File) == message.ListKey(e.File) })
	at.replicated(e)
}

func (r *replicas) forget(which func(replica) bool) { *r = slices.DeleteFunc(*r, which) }

// replicated tells the master what has become of a copy.
func (at *step) replicated(e CopiedIn) {
	answer := message.ReplicatedAnswer{Key: message.ListKey(e.File), Copied: e.Copied, Failure: e.Failure}
	if e.Copied {
		answer.Bytes = e.Bytes
	}
	at.news.Replicated = append(at.news.Replicated, answer)
	at.later()
}
