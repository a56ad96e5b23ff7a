package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher/replica"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
)

// epoch is the wall clock at the start of a run.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Run plays the tasks to their end.
func Run(config Config) (*Result, error) {
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("simulate a cluster: %w", err)
	}
	w := newWorld(config)
	var err error
	if w.dispatcher, err = w.newDispatcher(); err != nil {
		return nil, fmt.Errorf("simulate a cluster: %w", err)
	}
	if w.planner, err = w.newPlanner(); err != nil {
		return nil, fmt.Errorf("simulate a cluster: %w", err)
	}
	for t := range w.Tasks {
		w.timeline.After(w.Tasks[t].Enters, func() { w.enter(t) })
	}
	if w.SessionEvery > 0 {
		w.timeline.After(0, w.tick)
	}
	for w.left > 0 && w.failure == nil {
		if !w.timeline.Step() || w.timeline.Now() > 1000*time.Hour {
			w.failure = fmt.Errorf("%d of %d tasks are not done after %s", w.left, len(w.Tasks), w.timeline.Now())
		}
	}
	if w.failure != nil {
		return nil, fmt.Errorf("simulate a cluster: %w", w.failure)
	}
	w.record.Note(w.timeline.Now(), "over")
	w.result.Makespan, w.result.Hash, w.result.Bars = w.timeline.Now(), w.record.Hash(), w.record.Bars
	return &w.result, nil
}

type world struct {
	Config
	timeline   *sim.Timeline
	network    *sim.Network
	record     *sim.Record
	dispatcher dispatcher
	planner    replica.Planner
	nodes      []*node
	files      []file
	byKey      map[task.FileKey]int
	waiting    []int // oldest first
	running    map[int]bool
	claimed    map[int]bool // by a replica policy
	reserved   map[int]bool // nodes, likewise
	left       int
	fresh      bool // tasks have entered since the last session
	planned    bool // a pass
	result     Result
	failure    error
}

func newWorld(config Config) *world {
	w := &world{
		Config: config, timeline: &sim.Timeline{}, record: sim.NewRecord(), byKey: make(map[task.FileKey]int),
		running: make(map[int]bool), left: len(config.Tasks), result: Result{Tasks: make([]TaskResult, len(config.Tasks))},
	}
	w.record.Keep = config.KeepBars
	w.network = sim.NewNetwork(w.timeline)
	for i := range config.Nodes {
		w.nodes = append(w.nodes, newNode(w, i))
	}
	for i, described := range config.Files {
		f := file{File: described, key: task.FileKey(fmt.Sprintf("file%06d", i))}
		for _, n := range slices.Sorted(slices.Values(described.Holders)) {
			f.replicas = append(f.replicas, holding{replica.Copied{Node: w.nodes[n].id, Complete: true}, n})
		}
		w.files = append(w.files, f)
		w.byKey[f.key] = i
	}
	return w
}

func (w *world) enter(t int) {
	w.waiting = append(w.waiting, t)
	w.record.Note(w.timeline.Now(), "enter", int64(t))
	w.news(true)
}

// news asks for a pass when all that happens at this moment has happened.
func (w *world) news(entered bool) {
	w.fresh = w.fresh || entered
	if w.SessionEvery > 0 || w.planned {
		return
	}
	w.planned = true
	w.timeline.After(0, func() {
		w.planned = false
		w.pass()
		if w.fresh {
			w.session()
		}
	})
}

// tick is a scheduling session of 002.
func (w *world) tick() {
	w.session()
	w.pass()
	w.timeline.After(w.SessionEvery, w.tick)
}

// pass dispatches what no replica policy has claimed.
func (w *world) pass() {
	if w.dispatcher == nil {
		return
	}
	states := make([]nodeState, len(w.nodes))
	for i, n := range w.nodes {
		states[i].load = n.load()
		if !w.reserved[i] {
			states[i].free = n.Hardware.Slots - n.running
		}
	}
	open := slices.DeleteFunc(slices.Clone(w.waiting), func(t int) bool { return w.claimed[t] })
	for _, start := range w.dispatcher.pass(open, states) {
		w.start(start.task, w.nodes[start.node])
	}
}

func (w *world) start(t int, n *node) {
	at := slices.Index(w.waiting, t)
	if at < 0 || n.running >= w.Hardware.Slots {
		w.failure = fmt.Errorf("task %d cannot start on node %d: it does not wait, or there is no slot", t, n.index)
		return
	}
	w.waiting = slices.Delete(w.waiting, at, at+1)
	n.follow()
	n.running++
	w.running[t] = true
	w.record.Note(w.timeline.Now(), "start", int64(t), int64(n.index))
	one := &w.result.Tasks[t]
	*one = TaskResult{Node: n.index, Started: w.timeline.Now(), Waited: w.timeline.Now() - w.Tasks[t].Enters, Local: true}
	w.timeline.After(w.Hardware.Start, func() {
		w.bar(t, sim.Waiting, one.Started)
		w.readNext(t, n, w.Tasks[t].Files, w.timeline.Now())
	})
}

// readNext reads the files one after the other, and then computes.
func (w *world) readNext(t int, n *node, files []int, since time.Duration) {
	one := &w.result.Tasks[t]
	if len(files) > 0 {
		n.read(files[0], func(local bool) {
			one.Local = one.Local && local
			one.Bytes += float64(w.files[files[0]].Size)
			w.readNext(t, n, files[1:], since)
		})
		return
	}
	one.Read = w.timeline.Now() - since
	w.bar(t, sim.Transferring, since)
	begun := w.timeline.Now()
	w.timeline.After(w.Tasks[t].Compute, func() {
		w.bar(t, sim.Computing, begun)
		w.end(t, n)
	})
}

func (w *world) end(t int, n *node) {
	n.follow()
	n.running--
	delete(w.running, t)
	w.left--
	w.result.Tasks[t].Ended = w.timeline.Now()
	w.record.Note(w.timeline.Now(), "end", int64(t), int64(n.index))
	w.news(false)
}

func (w *world) bar(t int, kind sim.BarKind, from time.Duration) {
	w.record.Bar(sim.Bar{Row: t, Kind: kind, Task: int32(t), From: from, To: w.timeline.Now()})
}
