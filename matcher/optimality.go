package matcher

import (
	"cmp"
	"math"
	"slices"
)

// Optimality compares a solution with the best one.
type Optimality struct {
	Placed, BestPlaced int     // tasks in free slots; so for all figures
	Sum, BestSum       float64 // of ranks, those without bound left out
	Unbounded          int     // ranks without bound, such as NothingMissing
	BestUnbounded      int
	// Bound tells that BestSum is not the best sum but one that no solution
	// with as many tasks can exceed, because the matrix was too large for the
	// exact solver.
	Bound bool
}

// ExactPlaces is the number of free slots up to which Measured solves the
// matrix exactly; beyond, it takes the bound.
const ExactPlaces = 2000

// Ratio is 1 for the best solution and smaller for others, never below 0:
// their sum by the best one where ranks are gains, the best one by theirs
// where ranks are costs below zero. Solutions that differ in the number of
// tasks, or of ranks without bound, compare by these numbers first.
func (o Optimality) Ratio() float64 {
	switch {
	case !o.Bound && o.Placed != o.BestPlaced:
		return float64(o.Placed) / float64(o.BestPlaced)
	case o.Unbounded != o.BestUnbounded:
		return min(1, float64(max(0, o.Unbounded))/float64(max(1, o.BestUnbounded)))
	case o.Sum >= o.BestSum:
		return 1
	case o.BestSum <= 0:
		return o.BestSum / o.Sum
	}
	return max(0, o.Sum/o.BestSum)
}

// Measured is a solver that also tells how good its solution for the free
// slots is. It costs a second, exact solution whenever it is used.
func Measured(solver Solver, tell func(Optimality)) Solver {
	return MeasuredWhere(solver, func([]Assignment) bool { return true }, tell)
}

// MeasuredWhere is Measured for those solutions that are wanted.
func MeasuredWhere(solver Solver, wanted func([]Assignment) bool, tell func(Optimality)) Solver {
	return func(m *Matrix) []Assignment {
		result := solver(m)
		if !wanted(result) {
			return result
		}
		var o Optimality
		o.Placed, o.Sum, o.Unbounded = startsOf(result)
		slots := 0
		for _, b := range m.bidders(false) {
			slots += b.places.FreeSlots
		}
		if slots <= ExactPlaces {
			o.BestPlaced, o.BestSum, o.BestUnbounded = startsOf(exactStarts(m))
		} else {
			o.Bound = true
			o.BestPlaced, o.BestSum, o.BestUnbounded = m.bound(o.Placed)
		}
		if o.Placed > 0 || o.BestPlaced > 0 {
			tell(o)
		}
		return result
	}
}

// exactStarts solves for the free slots only.
func exactStarts(m *Matrix) []Assignment {
	m.runs++
	run := exactRun{greedyRun{matrix: m, patient: m.patience != nil}}
	run.pass(false)
	return run.result
}

func startsOf(assignments []Assignment) (count int, sum float64, unbounded int) {
	for _, a := range assignments {
		if !a.Prefill {
			count++
			sum, unbounded = addRank(sum, unbounded, a.Rank)
		}
	}
	return count, sum, unbounded
}

func addRank(sum float64, unbounded int, rank float64) (float64, int) {
	switch {
	case rank >= math.MaxFloat64:
		return sum, unbounded + 1
	case rank <= -math.MaxFloat64:
		return sum, unbounded - 1
	}
	return sum + rank, unbounded
}

// bound is a sum that no choice of so many free slots can exceed: every slot
// counts with the largest rank that its pilot gives to any waiting task, as if
// pilots did not compete.
func (m *Matrix) bound(placed int) (count int, sum float64, unbounded int) {
	largest := make(map[uint32]float64) // entry base of a class
	for no, block := range m.classes {
		for i, c := range block.ready {
			if i == 0 || c.EntryBase > largest[no] {
				largest[no] = c.EntryBase
			}
		}
	}
	var slots []float64
	for _, b := range m.bidders(false) {
		if best, found := b.largestRank(m, largest); found {
			for range b.supply(m, false) {
				slots = append(slots, best)
			}
		}
	}
	slices.SortFunc(slots, func(a, b float64) int { return cmp.Compare(b, a) })
	for _, rank := range slots[:min(placed, len(slots))] {
		count++
		sum, unbounded = addRank(sum, unbounded, rank)
	}
	return count, sum, unbounded
}

// largestRank is at least the largest rank that the pilot gives to a task;
// entryBases are the largest of each class that has tasks.
func (b *bidder) largestRank(m *Matrix, entryBases map[uint32]float64) (best float64, found bool) {
	for _, answer := range b.row.answers {
		entryBase, waits := entryBases[answer.Class]
		if !waits || !answer.Feasible || answer.PerTask || !b.places.offers(m.classes[answer.Class].need, false) {
			continue
		}
		if rank := answer.Base + entryBase; !found || rank > best {
			best, found = rank, true
		}
	}
	for _, e := range b.row.exceptions {
		if e.cell.ready && e.clause == "" && (!found || e.rank > best) {
			best, found = e.rank, true
		}
	}
	return best, found
}
