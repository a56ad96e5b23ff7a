package cluster

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher/replica"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
)

// node is one compute node with its disk.
type node struct {
	*world
	index    int
	id       task.PilotID
	memory   sim.LinkID // its own files, for its own tasks
	up, down sim.LinkID // the card
	serving  int        // remote readers and copies
	running  int        // tasks, and so slots in use
	reads    int        // of its own tasks that are under way
	average  float64    // of running tasks over a minute, as uptime shows it
	averaged time.Duration
}

// holding is a replica of a file.
type holding struct {
	replica.Copied
	index int // of the node
}

type file struct {
	File
	key      task.FileKey
	replicas []holding // by node
}

func newNode(w *world, index int) *node {
	return &node{
		world: w, index: index, id: task.PilotID(fmt.Sprintf("node%04d", index)),
		memory: w.network.Link(w.Hardware.Local), up: w.network.Link(w.Hardware.Card), down: w.network.Link(w.Hardware.Card),
	}
}

func (w *world) nodeOf(id task.PilotID) int {
	return slices.IndexFunc(w.nodes, func(n *node) bool { return n.id == id })
}

// has tells whether the node has the whole file.
func (n *node) has(f int) bool {
	return slices.ContainsFunc(n.files[f].replicas, func(h holding) bool { return h.index == n.index && h.Complete })
}

func (n *node) cachedSize(key task.FileKey) (size task.Bytes, has bool) {
	f := n.byKey[key]
	return n.files[f].Size, n.has(f)
}

// load is the average per CPU, at most 1.
func (n *node) load() float64 { return min(1, n.follow()/float64(n.Hardware.CPUs)) }

// follow brings the average up to now: it nears the number of running tasks by
// 63 % a minute.
func (n *node) follow() float64 {
	now := n.timeline.Now()
	n.average = float64(n.running) + (n.average-float64(n.running))*math.Exp(-(now-n.averaged).Minutes())
	n.averaged = now
	return n.average
}

// serve counts who takes of the node's disk and memory for others; its own
// readers keep a part of their speed meanwhile.
func (n *node) serve(by int) {
	n.serving += by
	speed := n.Hardware.Local
	if n.serving > 0 {
		speed *= n.Hardware.WhileServing
	}
	n.network.Resize(n.memory, speed)
}

// room is how much more the node can hold.
func (n *node) room() task.Bytes {
	if n.Hardware.Room == 0 {
		return math.MaxInt64
	}
	left := n.Hardware.Room
	for _, f := range n.files {
		if slices.ContainsFunc(f.replicas, func(h holding) bool { return h.index == n.index }) {
			left -= f.Size
		}
	}
	return max(left, 0)
}

// source is the holder that serves the fewest, the first of several.
func (w *world) source(f int) (best *node) {
	for _, h := range w.files[f].replicas {
		if n := w.nodes[h.index]; h.Complete && (best == nil || n.serving < best.serving) {
			best = n
		}
	}
	return best
}

// read lets a task read a file, and then goes on.
func (n *node) read(f int, then func(local bool)) {
	at := n.source(f)
	local := n.has(f)
	if local {
		at = n
	}
	for i := range n.files[f].replicas {
		if h := &n.files[f].replicas[i]; h.index == at.index {
			h.Used = epoch.Add(n.timeline.Now())
		}
	}
	n.reads++
	if local {
		n.network.Send(float64(n.files[f].Size), []sim.LinkID{n.memory}, func() {
			n.reads--
			then(true)
		})
		return
	}
	n.result.RemoteBytes += float64(n.files[f].Size)
	at.serve(+1)
	n.network.Send(float64(n.files[f].Size), []sim.LinkID{at.up, n.down}, func() {
		at.serve(-1)
		n.reads--
		if n.KeepReads {
			n.keep(f)
		}
		then(false)
	})
}

// keep makes a file that the node has read a replica, if there is room.
func (n *node) keep(f int) {
	own := &n.files[f]
	if slices.ContainsFunc(own.replicas, func(h holding) bool { return h.index == n.index }) || !n.makeRoom(own.Size) {
		return
	}
	now := replica.Copied{Node: n.id, Complete: true, Used: epoch.Add(n.timeline.Now())}
	own.replicas = append(own.replicas, holding{now, n.index})
	slices.SortFunc(own.replicas, func(a, b holding) int { return a.index - b.index })
	n.record.Note(n.timeline.Now(), "keep", int64(f), int64(n.index))
	n.news(false)
}

// makeRoom drops replicas until there is room.
func (n *node) makeRoom(size task.Bytes) bool {
	for n.room() < size {
		oldest, used := -1, time.Time{}
		for f := range n.files {
			for _, h := range n.files[f].replicas {
				if h.index == n.index && h.Complete && len(n.files[f].replicas) > 1 && (oldest < 0 || h.Used.Before(used)) {
					oldest, used = f, h.Used
				}
			}
		}
		if oldest < 0 {
			return false
		}
		n.drop(oldest)
	}
	return true
}

// drop takes the node's replica of a file away.
func (n *node) drop(f int) {
	n.files[f].replicas = slices.DeleteFunc(n.files[f].replicas, func(h holding) bool { return h.index == n.index })
	n.record.Note(n.timeline.Now(), "drop", int64(f), int64(n.index))
	n.result.Drops = append(n.result.Drops, Drop{f, n.index, n.timeline.Now()})
}

// copyTo makes a replica.
func (n *node) copyTo(to *node, f int) {
	own := &n.files[f]
	own.replicas = append(own.replicas, holding{replica.Copied{Node: to.id}, to.index})
	slices.SortFunc(own.replicas, func(a, b holding) int { return a.index - b.index })
	n.record.Note(n.timeline.Now(), "copy", int64(f), int64(n.index), int64(to.index))
	begun := n.timeline.Now()
	n.serve(+1)
	to.serve(+1)
	n.network.Send(float64(own.Size), []sim.LinkID{n.up, to.down}, func() {
		n.serve(-1)
		to.serve(-1)
		for i := range own.replicas {
			if own.replicas[i].index == to.index {
				own.replicas[i].Complete = true
			}
		}
		n.result.Copies = append(n.result.Copies, Copy{File: f, From: n.index, To: to.index, Begun: begun, Over: n.timeline.Now()})
		n.result.CopiedBytes += float64(own.Size)
		n.record.Note(n.timeline.Now(), "copied", int64(f), int64(to.index))
		n.news(false)
	})
}
