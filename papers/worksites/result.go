package worksites

import (
	"time"

	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
)

// WorkerSums are the sums of one worker.
type WorkerSums struct {
	Tasks     int
	Hits      int // files that the data server had
	Transfers int // files fetched for it
	Bytes     task.Bytes
	Waiting   time.Duration // of its requests in the data server's queue
	Transfer  time.Duration
	Computing time.Duration
	Wasted    time.Duration // computing of copies that were cancelled
}

// Result is how a run came out.
type Result struct {
	Makespan  time.Duration
	Workers   []WorkerSums
	Transfers int
	Bytes     task.Bytes
	Hits      int
	Evictions int // of the data servers
	Requests  int // to the scheduler
	// Utilisation is computing time over makespan, the mean of all workers
	// (001, section 2.2).
	Utilisation float64
	// TransferShare is the part of the makespan in which some file was on its
	// way (001, figure 8b).
	TransferShare float64
	// Piggyback is the largest number of evictions told with one request.
	Piggyback int
	Hash      string
	Events    uint64
	Bars      []sim.Bar
}

// HitRatio is the share of reads that the data servers served from what they
// had.
func (r *Result) HitRatio() float64 {
	if r.Hits+r.Transfers == 0 {
		return 0
	}
	return float64(r.Hits) / float64(r.Hits+r.Transfers)
}

func (w *world) result() *Result {
	r := &Result{Makespan: w.timeline.Now(), Piggyback: w.piggyback, Events: w.timeline.Events(), Evictions: w.evictions, Requests: w.requests}
	for i := range w.workers {
		one := &w.workers[i]
		if one.task >= 0 {
			w.enter(i, one.state)
		}
		r.Workers = append(r.Workers, one.sums)
		r.Transfers += one.sums.Transfers
		r.Bytes += one.sums.Bytes
		r.Hits += one.sums.Hits
		r.Utilisation += one.sums.Computing.Seconds() / r.Makespan.Seconds() / float64(len(w.workers))
	}
	if w.transferring > 0 {
		w.busy += w.timeline.Now() - w.busySince
	}
	r.TransferShare = w.busy.Seconds() / r.Makespan.Seconds()
	w.record.Note(w.timeline.Now(), "end", int64(r.Transfers))
	r.Hash, r.Bars = w.record.Hash(), w.record.Bars
	return r
}
