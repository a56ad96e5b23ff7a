package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// Solvers says which rank matrices are solved. Each pilot has one free slot and
// ranks Own tasks itself, drawn by the seed, as one that has their inputs does;
// the others it ranks by what all pilots know of them.
type Solvers struct {
	ExactPilots, ExactTasks   int
	GreedyPilots, GreedyTasks int
	Own                       int
	Runs                      int // of which the median is taken
	Seed                      uint64
}

// SolversResult is what `pilotage bench solvers` reports.
type SolversResult struct {
	ExactPilots  int `json:"exact_pilots"`
	ExactTasks   int `json:"exact_tasks"`
	GreedyPilots int `json:"greedy_pilots"`
	GreedyTasks  int `json:"greedy_tasks"`
	Own          int `json:"ranks_per_pilot"`
	Runs         int `json:"runs"`
	// Times of the solvers; the first three on the same matrix.
	Exact        Distribution `json:"exact_seconds"`
	GreedySame   Distribution `json:"greedy_same_matrix_seconds"`
	Sequential   Distribution `json:"sequential_same_matrix_seconds"`
	GreedySparse Distribution `json:"greedy_seconds"`
	// The best sum of ranks by the solver's: 1 is the best.
	GreedyRatio     float64 `json:"greedy_optimal_ratio"`
	SequentialRatio float64 `json:"sequential_optimal_ratio"`
	CPUs            int     `json:"cpus"`
	LoadBefore      string  `json:"load_before"`
	LoadAfter       string  `json:"load_after"`
}

// Validate tells what of the values makes no sense.
func (s Solvers) Validate() error {
	if min(s.ExactPilots, s.ExactTasks, s.GreedyPilots, s.GreedyTasks, s.Runs) < 1 || s.Own < 0 || s.Own > min(s.ExactTasks, s.GreedyTasks) {
		return errors.New("pilots, tasks and runs are at least 1, and no pilot ranks more tasks than there are")
	}
	return nil
}

// Run measures.
func (s Solvers) Run(ctx context.Context) (SolversResult, error) {
	if err := s.Validate(); err != nil {
		return SolversResult{}, err
	}
	r := SolversResult{
		ExactPilots: s.ExactPilots, ExactTasks: s.ExactTasks, GreedyPilots: s.GreedyPilots, GreedyTasks: s.GreedyTasks,
		Own: s.Own, Runs: s.Runs, CPUs: runtime.NumCPU(), LoadBefore: load(),
	}
	var exact, greedy, sequential, sparse []time.Duration
	random := rand.New(rand.NewPCG(s.Seed, 0))
	for range s.Runs {
		if err := ctx.Err(); err != nil {
			return SolversResult{}, err
		}
		m := rankedSite(s.ExactPilots, s.ExactTasks, s.Own, random)
		exact = append(exact, solved(m, matcher.Exact))
		greedy = append(greedy, solved(m, matcher.Greedy))
		sequential = append(sequential, solved(m, matcher.InTurn()))
		r.GreedyRatio += ratioOf(m, matcher.Greedy) / float64(s.Runs)
		r.SequentialRatio += ratioOf(m, matcher.InTurn()) / float64(s.Runs)
		sparse = append(sparse, solved(rankedSite(s.GreedyPilots, s.GreedyTasks, s.Own, random), matcher.Greedy))
	}
	r.Exact, r.GreedySame, r.Sequential, r.GreedySparse = Distribute(exact), Distribute(greedy), Distribute(sequential), Distribute(sparse)
	r.LoadAfter = load()
	return r, nil
}

// solved is how long a solver takes, which changes nothing in the matrix.
func solved(m *matcher.Matrix, solver matcher.Solver) time.Duration {
	began := time.Now()
	solver(m)
	return time.Since(began)
}

// ratioOf compares a solver's solution with the best one.
func ratioOf(m *matcher.Matrix, solver matcher.Solver) float64 {
	return rankSum(matcher.Exact(m)) / rankSum(solver(m)) // ranks are costs, so below zero
}

func rankSum(solution []matcher.Assignment) (sum float64) {
	for _, a := range solution {
		sum += a.Rank
	}
	return sum
}

// rankedSite draws a matrix: ranks are seconds lost, so below zero; a task costs
// up to 20 s anywhere, and less at a pilot that ranks it itself.
func rankedSite(pilots, tasks, own int, random *rand.Rand) *matcher.Matrix {
	term := task.Term{Epoch: 1}
	m := matcher.NewMatrix(term)
	m.AddClass(matcher.ListClass{No: 1, Class: task.Class{Resources: task.Resources{Cores: 1}}})
	bases := make([]float64, tasks)
	for no := range bases {
		bases[no] = -20 * random.Float64()
		m.AddTask(matcher.MatrixTask{No: uint64(no), Class: 1, Version: 1, EntryBase: bases[no], Order: uint64(no)})
		m.SetReady(uint64(no), true)
	}
	for p := range pilots {
		id := task.PilotID(fmt.Sprintf("pilot-%06d", p))
		row := matcher.Row{Pilot: id, Version: matcher.ListVersion{Term: term, N: 1}, Classes: []matcher.ClassAnswer{{Class: 1, Feasible: true}}}
		drawn := make(map[int]bool, own)
		for len(drawn) < own {
			drawn[random.IntN(tasks)] = true
		}
		for _, no := range slices.Sorted(maps.Keys(drawn)) {
			row.Exceptions = append(row.Exceptions, matcher.Exception{No: uint64(no), Rank: bases[no] * random.Float64()})
		}
		m.SetRow(row)
		m.SetPlaces(id, matcher.Places{Free: task.Resources{Cores: 1}, FreeSlots: 1})
	}
	return m
}
