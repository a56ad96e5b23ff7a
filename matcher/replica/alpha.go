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
// the least access load, and comes from the holder with the least. Where no
// waiting task that uses the file can run, there is no copy.
func (a Alpha) Session(view View) (decisions Decisions) {
	users := make(map[task.FileKey][]*Task)
	for i := range view.Tasks {
		for _, file := range view.Tasks[i].Files {
			users[file] = append(users[file], &view.Tasks[i])
		}
	}
	files := slices.SortedFunc(maps.Keys(users), func(x, y task.FileKey) int {
		return cmp.Or(cmp.Compare(len(users[y]), len(users[x])), cmp.Compare(x, y))
	})
	coming := make(map[task.PilotID]int)
	room := make(map[task.PilotID]task.Bytes)
	nodes := slices.Clone(view.Nodes)
	for _, node := range nodes {
		room[node.ID] = node.Room
	}
	before := func(x, y Node) int {
		return cmp.Or(cmp.Compare(coming[x.ID], coming[y.ID]), cmp.Compare(x.Load, y.Load), cmp.Compare(x.ID, y.ID))
	}
	slices.SortFunc(nodes, before)
	for _, file := range files {
		replicas := view.Replicas(file)
		missing := a.Replicas(len(users[file]), len(replicas), len(nodes)) - len(replicas)
		if missing <= 0 {
			continue
		}
		size := max(0, view.Size(file))
		from := source(view, replicas)
		var chosen []Node
		for _, node := range nodes {
			holds := func(c Copied) bool { return c.Node == node.ID }
			runs := func(t *Task) bool { return t.canRun(node.ID) }
			if missing == 0 || room[node.ID] < size || slices.ContainsFunc(replicas, holds) || !slices.ContainsFunc(users[file], runs) {
				continue
			}
			decisions.Copies = append(decisions.Copies, Copy{file, from, node.ID})
			chosen = append(chosen, node)
			room[node.ID] -= size
			missing--
		}
		for _, node := range chosen { // to where they now belong
			at, _ := slices.BinarySearchFunc(nodes, node, before)
			nodes = slices.Delete(nodes, at, at+1)
			coming[node.ID]++
			at, _ = slices.BinarySearchFunc(nodes, node, before)
			nodes = slices.Insert(nodes, at, node)
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
