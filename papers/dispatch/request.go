package dispatch

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// File is an input as the schedulers see it.
type File struct {
	Key  task.FileKey
	Size task.Bytes // below 1 counts as 1
}

// Task is what waits. Numbers are the caller's and unique.
type Task struct {
	No    uint64
	Files []File
}

// Request is a worker's demand for one task (001, Fig. 3).
type Request struct {
	Worker string
	Site   string
	// Evicted are the files that the site's data server has dropped since the
	// last request from the same site (001, section 3.4).
	Evicted []task.FileKey
	// Eligible tells which tasks the worker can run; nil means all.
	Eligible func(no uint64) bool
}

func (r *Request) accepts(no uint64) bool { return r.Eligible == nil || r.Eligible(no) }

// Workqueue gives the oldest task to whoever asks: 001's example of a
// worker-centric scheduler that looks at nothing (section 2.3). The zero value
// is empty.
type Workqueue struct {
	waiting []uint64
}

// Add puts a task at the end of the queue.
func (q *Workqueue) Add(t Task) { q.waiting = append(q.waiting, t.No) }

// Next takes the oldest task that the worker can run.
func (q *Workqueue) Next(r Request) (no uint64, found bool) {
	at := slices.IndexFunc(q.waiting, r.accepts)
	if at < 0 {
		return 0, false
	}
	no = q.waiting[at]
	if at == 0 {
		q.waiting = q.waiting[1:]
	} else {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	return no, true
}

// Waiting is the number of tasks in the queue.
func (q *Workqueue) Waiting() int { return len(q.waiting) }
