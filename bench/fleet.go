package bench

import (
	"context"
	"math"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// fleet are the pilots of a run: in this process (crew) or each in its own
// (convoy).
type fleet interface {
	// begin forgets what was seen while pilots joined.
	begin()
	// collect has this process collect its garbage now, if it is one of all
	// pilots: that takes it seconds, and a process of one pilot next to none.
	collect()
	// kill ends a pilot as SIGKILL does; hang stops it as SIGSTOP does, and
	// resume lets it go on. Pilots have numbers from 0; that of pilot n's site is
	// n modulo the number of sites.
	kill(pilot int)
	hang(pilot int)
	resume(pilot int)
	// seen is what pilots did, as far as it can be seen.
	seen() *observations
	// tell fills in what was seen since begin.
	tell(ctx context.Context, r *OverlayResult) error
	// usage is what all pilots have used by now.
	usage() (cpu time.Duration, resident int64, err error)
	// close lets all pilots leave.
	close() error
}

// capacity is that of each cache; all is what holds every file.
func (o Overlay) capacity(all task.Bytes) task.Bytes {
	if files := o.cacheFiles(); files > 0 {
		return task.Bytes(files) * o.FileSize
	}
	return all
}

// cacheFiles is how many files each cache holds; 0: all. Each task writes one
// file, so a pilot's working set has as many as it runs tasks, rounded to the
// nearest.
func (o Overlay) cacheFiles() int {
	if o.CacheShare > 0 {
		return int(math.Round(o.CacheShare * float64(o.Tasks) / float64(o.Pilots)))
	}
	return o.CacheFiles
}

// board starts the pilots and returns when all are members of their sites.
func (o Overlay) board(ctx context.Context, q *queueProcess) (fleet, error) {
	if o.Transport == TransportProcesses {
		return o.launch(ctx, q)
	}
	return o.hire(ctx, q)
}
