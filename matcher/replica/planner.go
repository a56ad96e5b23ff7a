package replica

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Planner is a policy. Session looks at the site once, at the end of a
// scheduling session of 002 or when a task enters the list (003).
type Planner interface {
	Session(View) Decisions
}

// View is the site as a planner sees it.
type View struct {
	Tasks []Task // that wait, oldest first
	Nodes []Node // by id
	// Replicas tells who has a file or is getting it, by node id.
	Replicas func(task.FileKey) []Copied
	Size     func(task.FileKey) task.Bytes
	// Running tells whether a task that was started has not ended.
	Running func(no uint64) bool
}

// Task waits for a node.
type Task struct {
	No      uint64
	Files   []task.FileKey // that it reads, each once
	Weight  float64        // P_i, above 0; see Weight
	Runtime time.Duration  // T_i, expected
	// CanRun tells on which nodes; nil means on all.
	CanRun func(task.PilotID) bool
}

func (t *Task) canRun(node task.PilotID) bool { return t.CanRun == nil || t.CanRun(node) }

// Weight makes a task's priority a factor: 1 for the default 0, 1 more for
// each step up, a fraction for steps down.
func Weight(priority int) float64 {
	if priority < 0 {
		return 1 / float64(1-priority)
	}
	return float64(1 + priority)
}

// Node is a pilot.
type Node struct {
	ID   task.PilotID
	Free bool // has a free slot
	// FreeIn is how long until it is expected to have one; 0 for one that has,
	// and where that is not to count.
	FreeIn time.Duration
	Room   task.Bytes // for further replicas, without dropping any
	Load   float64    // of access to its files; the smaller the better
}

// Copied is a replica of a file.
type Copied struct {
	Node task.PilotID
	// Complete is false while it is on its way.
	Complete bool
	Used     time.Time // last read, zero if never
}

// Copy brings a replica of a file to a node, from one that has it, or from
// the storage element if From is empty.
type Copy struct {
	File     task.FileKey
	From, To task.PilotID
}

// Drop takes a replica away from a node.
type Drop struct {
	File task.FileKey
	Node task.PilotID
}

// Start runs a task on a node.
type Start struct {
	No   uint64
	Node task.PilotID
}

// Decisions of a session, to be carried out in the order of the fields.
type Decisions struct {
	Drops    []Drop
	Copies   []Copy
	Reserved []task.PilotID // all nodes that are kept for plans, by id
	Starts   []Start
	Claimed  []uint64 // tasks that no other policy may decide about
}

// Chain runs policies in turn (002, section 2). A node that is reserved or
// given a task, and a task that is claimed or started, is not shown to the
// policies behind.
type Chain []Planner

// Session is that of all policies together.
func (c Chain) Session(view View) (all Decisions) {
	for _, planner := range c {
		one := planner.Session(view)
		view.Tasks = slices.DeleteFunc(slices.Clone(view.Tasks), func(t Task) bool {
			started := func(s Start) bool { return s.No == t.No }
			return slices.Contains(one.Claimed, t.No) || slices.ContainsFunc(one.Starts, started)
		})
		view.Nodes = slices.Clone(view.Nodes)
		for i := range view.Nodes {
			node := &view.Nodes[i]
			busy := func(s Start) bool { return s.Node == node.ID }
			node.Free = node.Free && !slices.Contains(one.Reserved, node.ID) && !slices.ContainsFunc(one.Starts, busy)
		}
		view.Replicas = withCopies(withoutDrops(view.Replicas, one.Drops), one.Copies)
		all.Drops = append(all.Drops, one.Drops...)
		all.Copies = append(all.Copies, one.Copies...)
		all.Reserved = append(all.Reserved, one.Reserved...)
		all.Starts = append(all.Starts, one.Starts...)
		all.Claimed = append(all.Claimed, one.Claimed...)
	}
	slices.Sort(all.Reserved)
	all.Reserved = slices.Compact(all.Reserved)
	return all
}

// withCopies shows what was decided as on its way.
func withCopies(replicas func(task.FileKey) []Copied, copies []Copy) func(task.FileKey) []Copied {
	if len(copies) == 0 {
		return replicas
	}
	return func(file task.FileKey) []Copied {
		known := replicas(file)
		for _, c := range copies {
			if c.File == file {
				known = append(slices.Clip(known), Copied{Node: c.To})
			}
		}
		slices.SortFunc(known, byNode)
		return known
	}
}

// withoutDrops hides what was decided to be dropped.
func withoutDrops(replicas func(task.FileKey) []Copied, drops []Drop) func(task.FileKey) []Copied {
	if len(drops) == 0 {
		return replicas
	}
	return func(file task.FileKey) []Copied {
		return slices.DeleteFunc(slices.Clone(replicas(file)), func(c Copied) bool { return slices.Contains(drops, Drop{file, c.Node}) })
	}
}

func byNode(a, b Copied) int {
	switch {
	case a.Node < b.Node:
		return -1
	case a.Node > b.Node:
		return 1
	}
	return 0
}

// FCFS starts the oldest task on the first free node that can run it: the
// default policy of 002's scheduler. It looks at no file.
type FCFS struct{}

// Session is a Planner's.
func (FCFS) Session(view View) (decisions Decisions) {
	free := slices.DeleteFunc(slices.Clone(view.Nodes), func(n Node) bool { return !n.Free })
	for i := range view.Tasks {
		t := &view.Tasks[i]
		at := slices.IndexFunc(free, func(n Node) bool { return t.canRun(n.ID) })
		if at >= 0 {
			decisions.Starts = append(decisions.Starts, Start{t.No, free[at].ID})
			free = slices.Delete(free, at, at+1)
		}
	}
	return decisions
}
