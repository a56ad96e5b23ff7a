package cluster

import (
	"time"

	"github.com/pilotage-grid/pilotage/matcher/replica"
	"github.com/pilotage-grid/pilotage/task"
)

// session lets the replica policies decide and carries out what they say.
func (w *world) session() {
	w.fresh = false
	if w.planner == nil {
		return
	}
	decided := w.planner.Session(w.view())
	for _, drop := range decided.Drops {
		w.nodes[w.nodeOf(drop.Node)].drop(w.byKey[drop.File])
	}
	for _, c := range decided.Copies {
		w.nodes[w.nodeOf(c.From)].copyTo(w.nodes[w.nodeOf(c.To)], w.byKey[c.File])
	}
	w.reserved, w.claimed = make(map[int]bool), make(map[int]bool)
	for _, id := range decided.Reserved {
		w.reserved[w.nodeOf(id)] = true
	}
	for _, no := range decided.Claimed {
		w.claimed[int(no)] = true
	}
	for _, start := range decided.Starts {
		w.start(int(start.No), w.nodes[w.nodeOf(start.Node)])
	}
}

// view is the cluster as replica policies see it.
func (w *world) view() replica.View {
	view := replica.View{
		Replicas: func(key task.FileKey) []replica.Copied {
			var copied []replica.Copied
			for _, h := range w.files[w.byKey[key]].replicas {
				copied = append(copied, h.Copied)
			}
			return copied
		},
		Size:    func(key task.FileKey) task.Bytes { return w.files[w.byKey[key]].Size },
		Running: func(no uint64) bool { return w.running[int(no)] },
	}
	for _, t := range w.waiting {
		one := replica.Task{No: uint64(t), Weight: replica.Weight(w.Tasks[t].Priority), Runtime: w.Hardware.Start + w.Tasks[t].Compute}
		for _, f := range w.Tasks[t].Files {
			one.Files = append(one.Files, w.files[f].key)
			one.Runtime += time.Duration(float64(w.files[f].Size) / w.Hardware.Local * float64(time.Second))
		}
		view.Tasks = append(view.Tasks, one)
	}
	for _, n := range w.nodes {
		view.Nodes = append(view.Nodes, replica.Node{ID: n.id, Free: n.running < w.Hardware.Slots, Room: n.room(), Load: float64(n.serving + n.reads)})
	}
	return view
}
