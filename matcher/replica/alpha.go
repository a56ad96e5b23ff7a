package replica

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// Alpha is 003's rule (section 3.2): when more than alpha waiting tasks use a
// file for each of its replicas, copies are made until there are
// fileUsed/alpha in all, rounded down and at most one per node. Alpha is about
// how many tasks one replica serves at a time; 0 means a replica on every
// node. The zero value is that.
type Alpha struct{ Alpha int }

// Replicas is how many replicas of a file there should be in all while so
// many waiting tasks use it; never fewer than there are.
func (a Alpha) Replicas(used, replicas, nodes int) int {
	wanted := nodes
	if a.Alpha > 0 {
		wanted = min(used/a.Alpha, nodes)
	}
	if used <= replicas*a.Alpha {
		return replicas
	}
	return max(replicas, wanted)
}

// Session makes copies only. Files that most tasks use come first. A copy
// goes to the node that gets the fewest in this session, then to the one with
// the least access load, and comes from the holder with the least.
func (a Alpha) Session(view View) (decisions Decisions) {
	used := make(map[task.FileKey]int)
	for _, t := range view.Tasks {
		for _, file := range t.Files {
			used[file]++
		}
	}
	files := slices.SortedFunc(maps.Keys(used), func(x, y task.FileKey) int {
		return cmp.Or(cmp.Compare(used[y], used[x]), cmp.Compare(x, y))
	})
	coming := make(map[task.PilotID]int)
	room := make(map[task.PilotID]task.Bytes)
	nodes := slices.Clone(view.Nodes)
	for _, node := range nodes {
		room[node.ID] = node.Room
	}
	for _, file := range files {
		replicas := view.Replicas(file)
		missing := a.Replicas(used[file], len(replicas), len(nodes)) - len(replicas)
		if missing <= 0 {
			continue
		}
		size := max(0, view.Size(file))
		slices.SortFunc(nodes, func(x, y Node) int {
			return cmp.Or(cmp.Compare(coming[x.ID], coming[y.ID]), cmp.Compare(x.Load, y.Load), cmp.Compare(x.ID, y.ID))
		})
		from := source(view, replicas)
		for _, node := range nodes {
			holds := func(c Copied) bool { return c.Node == node.ID }
			if missing == 0 || room[node.ID] < size || slices.ContainsFunc(replicas, holds) {
				continue
			}
			decisions.Copies = append(decisions.Copies, Copy{file, from, node.ID})
			coming[node.ID]++
			room[node.ID] -= size
			missing--
		}
	}
	return decisions
}

// source is the holder with the least access load, "" if nobody has the
// whole file.
func source(view View, replicas []Copied) (from task.PilotID) {
	least := 0.0
	for _, copied := range replicas {
		at := slices.IndexFunc(view.Nodes, func(n Node) bool { return n.ID == copied.Node })
		if at >= 0 && copied.Complete && (from == "" || view.Nodes[at].Load < least) {
			from, least = copied.Node, view.Nodes[at].Load
		}
	}
	return from
}
