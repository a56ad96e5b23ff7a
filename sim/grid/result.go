package grid

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
)

// Reads are the inputs read from one source: once for each attempt and input
// (files; bytes), Intermediate of them made by tasks.
type Reads struct {
	Files        int
	Intermediate int
	Bytes        float64
}

// Result is how a run came out.
type Result struct {
	Makespan time.Duration
	Reads    [task.SourceRemote + 1]Reads // by task.Source
	// PeerTransfers and PeerBytes are what moved between caches; a transfer may
	// serve several reads, so they may be fewer than the reads.
	PeerTransfers int
	PeerBytes     float64
	StorageReads  int // transfers from and to storage elements, uploads included
	StorageBytes  float64
	Uploads       int
	Evictions     int
	Replicas      int // copies that replica policies had made
	Starts        int
	Waited        time.Duration // of all started tasks from ready to assigned
	Staging       time.Duration // of all started tasks
	Utilisation   float64       // computing time over makespan and slots
	Requests      int           // that the queue has served
	Messages      int           // between pilots, without broadcasts
	Broadcasts    int
	Hash          string
	Events        uint64
	Bars          []sim.Bar
	Nodes         []string // their names, by number
}

// Total is the number of inputs read.
func (r *Result) Total() int {
	total := 0
	for _, reads := range r.Reads {
		total += reads.Files
	}
	return total
}

// HitRatio is (local + peer) / all, LocalHitRatio local / all, in files.
func (r *Result) HitRatio() float64 {
	return r.share(r.Reads[task.SourceLocal].Files + r.Reads[task.SourcePeer].Files)
}

// LocalHitRatio is the share of reads from the pilot's own cache.
func (r *Result) LocalHitRatio() float64 { return r.share(r.Reads[task.SourceLocal].Files) }

func (r *Result) share(files int) float64 {
	if total := r.Total(); total > 0 {
		return float64(files) / float64(total)
	}
	return 0
}

func (w *world) result() *Result {
	r := &w.sums
	r.Makespan, r.Requests, r.Events = w.timeline.Now(), w.queue.requests, w.timeline.Events()
	slots, computing := 0, time.Duration(0)
	for _, s := range w.sites {
		for i, n := range s.nodes {
			slots += n.Slots
			computing += n.computing
			r.Evictions += n.files.Evicted
			r.Nodes = append(r.Nodes, fmt.Sprintf("%s node %d", s.Name, i))
		}
		r.StorageReads += s.storage.reads
		r.StorageBytes += s.storage.bytes
	}
	if r.Makespan > 0 {
		r.Utilisation = computing.Seconds() / r.Makespan.Seconds() / float64(slots)
	}
	w.record.Note(w.timeline.Now(), "over")
	r.Hash, r.Bars = w.record.Hash(), w.record.Bars
	return r
}
