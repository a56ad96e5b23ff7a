package cluster

import (
	"errors"
	"fmt"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// dispatcher decides in a pass which of the waiting tasks (oldest first) start.
type dispatcher interface {
	pass(waiting []int, nodes []nodeState) []placed
}

// nodeState is a node in a pass.
type nodeState struct {
	free int     // slots
	load float64 // average per CPU
}

// placed is a task that starts on a node.
type placed struct{ task, node int }

// fifo is the batch system's scheduler.
type fifo struct{}

func (fifo) pass(waiting []int, nodes []nodeState) (starts []placed) {
	for _, t := range waiting {
		best := -1
		for i := range nodes {
			if nodes[i].free > 0 && (best < 0 || nodes[i].load < nodes[best].load) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		nodes[best].free--
		starts = append(starts, placed{t, best})
	}
	return starts
}

// ranked is the product's way: evaluators rank, a solver picks from the matrix.
type ranked struct {
	world      *world
	rank       *matcher.Rank
	solver     matcher.Solver
	matrix     *matcher.Matrix
	evaluators []*matcher.Evaluator
	version    matcher.ListVersion
	listed     map[int]bool
}

const classNo = 1

var oneCore = task.Resources{Cores: 1}

func newRanked(w *world, solver matcher.Solver) (*ranked, error) {
	rank, err := matcher.CompileRank(w.Rank)
	if err != nil {
		return nil, err
	}
	r := &ranked{
		world: w, rank: rank, solver: solver, listed: make(map[int]bool),
		version: matcher.ListVersion{Term: task.Term{Epoch: 1, Peer: "cluster"}, N: 1},
	}
	list := matcher.ListSnapshot{
		Version: r.version, Rates: matcher.DefaultRates(),
		Classes: []matcher.ListClass{{No: classNo, Class: task.Class{Rank: w.Rank, Resources: oneCore}}},
	}
	r.matrix = matcher.NewMatrix(r.version.Term)
	r.matrix.AddClass(list.Classes[0])
	compiler := matcher.NewCompiler(4)
	for _, n := range w.nodes {
		e := matcher.NewEvaluator(r.describe(n, 0), n.cachedSize, compiler)
		e.Reset(list)
		r.evaluators = append(r.evaluators, e)
	}
	return r, nil
}

func (r *ranked) describe(n *node, load float64) matcher.Pilot {
	return matcher.Pilot{ID: n.id, Site: "cluster", Host: string(n.id), Resources: task.Resources{Cores: n.Hardware.Slots}, Slots: n.Hardware.Slots, Load: load}
}

// pass brings list, loads and places up to date and lets the solver choose.
func (r *ranked) pass(waiting []int, nodes []nodeState) (starts []placed) {
	r.follow(waiting)
	for i, e := range r.evaluators {
		e.SetPilot(r.describe(r.world.nodes[i], nodes[i].load))
		r.matrix.SetRow(e.Row())
		r.matrix.SetPlaces(r.world.nodes[i].id, matcher.Places{Free: task.Resources{Cores: nodes[i].free}, FreeSlots: nodes[i].free})
	}
	for _, a := range r.matrix.Solve(r.solver) {
		starts = append(starts, placed{int(a.No), r.world.nodeOf(a.Pilot)})
	}
	return starts
}

// follow lists what is new and takes out what waits no more.
func (r *ranked) follow(waiting []int) {
	delta := matcher.ListDelta{Base: r.version, Version: matcher.ListVersion{Term: r.version.Term, N: r.version.N + 1}}
	still := make(map[int]bool, len(waiting))
	for _, t := range waiting {
		still[t] = true
		if r.listed[t] {
			continue
		}
		r.listed[t] = true
		entry := &matcher.ListEntry{No: uint64(t), Version: delta.Version.N, Class: classNo, Task: &task.Task{Rank: r.world.Rank, Resources: oneCore}}
		for _, f := range r.world.Tasks[t].Files {
			entry.Files = append(entry.Files, matcher.FileInfo{Key: r.world.files[f].key, Size: r.world.files[f].Size, Source: task.SourcePeer})
		}
		delta.Add = append(delta.Add, entry)
		r.matrix.AddTask(matcher.MatrixTask{
			No: entry.No, Class: classNo, Version: entry.Version, Order: entry.No, Queue: r.world.Tasks[t].Queue, Priority: r.world.Tasks[t].Priority,
			EntryBase: r.rank.EntryBase(entry.Task, entry.Files, matcher.DefaultRates()),
		})
		r.matrix.SetReady(entry.No, true)
	}
	for t := range r.world.Tasks {
		if r.listed[t] && !still[t] {
			r.listed[t] = false
			delta.Remove = append(delta.Remove, uint64(t))
			r.matrix.RemoveTask(uint64(t))
		}
	}
	for _, e := range r.evaluators {
		if _, err := e.Apply(delta); err != nil && !errors.Is(err, matcher.ErrListGap) {
			r.world.failure = fmt.Errorf("list of %d tasks: %w", len(waiting), err)
		}
	}
	r.version = delta.Version
}
