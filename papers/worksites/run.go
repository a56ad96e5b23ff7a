package worksites

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/sim"
)

// Run plays a workload to its end.
func Run(config Config, scheduler Scheduler) (*Result, error) {
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("simulate %s: %w", config.Workload.Name, err)
	}
	w := newWorld(config, scheduler)
	for i := range w.workers {
		w.ask(i)
	}
	for w.completed < len(config.Workload.Tasks) {
		if !w.timeline.Step() {
			return nil, fmt.Errorf("simulate %s: the scheduler gives nothing out, but %d of %d tasks are not done",
				config.Workload.Name, len(config.Workload.Tasks)-w.completed, len(config.Workload.Tasks))
		}
	}
	return w.result(), nil
}

type world struct {
	Config
	scheduler Scheduler
	timeline  *sim.Timeline
	network   *sim.Network
	record    *sim.Record
	workers   []worker
	servers   []*dataServer
	done      []bool
	completed int
	idle      []int // workers that got nothing
	piggyback int
	evictions int
	requests  int
	// busySince and busy: how long some transfer was under way.
	busySince, busy time.Duration
	transferring    int
}

type worker struct {
	server *dataServer
	speed  float64
	load   sim.Load
	task   int32 // -1: none
	state  sim.BarKind
	since  time.Duration // in this state
	end    *sim.Event    // of computing
	sums   WorkerSums
}

func newWorld(config Config, scheduler Scheduler) *world {
	w := &world{Config: config, scheduler: scheduler, timeline: &sim.Timeline{}, record: sim.NewRecord(), done: make([]bool, len(config.Workload.Tasks))}
	w.record.Keep = config.KeepBars
	w.network = sim.NewNetwork(w.timeline)
	var shared []sim.LinkID
	if config.ServerBandwidth > 0 {
		shared = append(shared, w.network.Link(config.ServerBandwidth))
	}
	seeds := sim.Random(config.Seed, "background")
	for _, site := range config.Sites {
		server := newDataServer(w, site, append(slices.Clone(shared), w.network.Link(site.Bandwidth)))
		w.servers = append(w.servers, server)
		for _, speed := range site.Speeds {
			w.workers = append(w.workers, worker{server: server, speed: speed, task: -1, load: sim.Load{Period: config.Background, Seed: seeds.Uint64()}})
		}
	}
	return w
}

// ask sends a worker's request; the answer takes the way there and back.
func (w *world) ask(i int) {
	w.timeline.After(w.workers[i].server.site.Latency, func() { w.request(i) })
}

func (w *world) request(i int) {
	w.requests++
	one := &w.workers[i]
	evicted := one.server.takeEvicted()
	w.piggyback = max(w.piggyback, len(evicted))
	chosen, found := w.scheduler.Request(i, evicted)
	if !found {
		w.idle = append(w.idle, i)
		return
	}
	w.record.Note(w.timeline.Now(), "assign", int64(i), int64(chosen))
	one.task = chosen
	w.timeline.After(one.server.site.Latency, func() {
		if one.task != chosen { // cancelled on its way
			return
		}
		one.state, one.since = sim.Waiting, w.timeline.Now()
		one.server.enqueue(i)
	})
}

// enter books the time in a state and goes to the next one.
func (w *world) enter(i int, state sim.BarKind) {
	one, now := &w.workers[i], w.timeline.Now()
	w.record.Bar(sim.Bar{Row: i, Kind: one.state, Task: one.task, From: one.since, To: now})
	spent := now - one.since
	switch one.state {
	case sim.Waiting:
		one.sums.Waiting += spent
	case sim.Transferring:
		one.sums.Transfer += spent
	case sim.Computing:
		one.sums.Computing += spent
	}
	one.state, one.since = state, now
}

// compute begins when all files of the task are at the data server.
func (w *world) compute(i int) {
	w.enter(i, sim.Computing)
	one := &w.workers[i]
	alone := time.Duration(float64(w.Workload.Tasks[one.task].Runtime) / one.speed)
	one.end = w.timeline.After(one.load.Takes(w.timeline.Now(), alone), func() { w.complete(i) })
}

func (w *world) complete(i int) {
	w.enter(i, sim.Waiting)
	one := &w.workers[i]
	finished := one.task
	one.task, one.end = -1, nil
	one.sums.Tasks++
	w.record.Note(w.timeline.Now(), "done", int64(i), int64(finished))
	if !w.done[finished] {
		w.done[finished] = true
		w.completed++
	}
	for _, other := range w.scheduler.Done(i, finished) {
		w.cancel(other, finished)
	}
	w.ask(i)
	// Who found nothing before may find a copy worth making now.
	for _, other := range w.idle {
		w.ask(other)
	}
	w.idle = w.idle[:0]
}

// cancel ends a worker's copy of a task, wherever it is.
func (w *world) cancel(i int, of int32) {
	one := &w.workers[i]
	if one.task != of {
		return
	}
	w.record.Note(w.timeline.Now(), "cancel", int64(i), int64(of))
	if one.state == sim.Computing {
		one.sums.Wasted += w.timeline.Now() - one.since
	}
	one.server.forget(i)
	w.timeline.Cancel(one.end)
	w.enter(i, sim.Waiting)
	one.task, one.end = -1, nil
	w.ask(i)
}

// transfers counts those under way, for the time that there were any.
func (w *world) transfers(change int) {
	if w.transferring == 0 {
		w.busySince = w.timeline.Now()
	}
	w.transferring += change
	if w.transferring == 0 {
		w.busy += w.timeline.Now() - w.busySince
	}
}
