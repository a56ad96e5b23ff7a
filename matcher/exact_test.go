package matcher

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// drawSite draws a site of one-place tasks: any pilot can run as many tasks
// at once as it has places.
func drawSite(t *rapid.T, pilots, tasks int) (*Matrix, *denseSite) {
	s := newTwinSites(t)
	one := task.Resources{Cores: 1}
	for class := range uint32(twinClasses) {
		s.clever.AddClass(ListClass{No: class, Class: task.Class{Resources: one}})
		s.dense.needs[class] = one
	}
	for range rapid.IntRange(0, tasks/2).Draw(t, "batches") {
		s.addTasks(t)
	}
	unbounded := rapid.Bool().Draw(t, "unbounded ranks")
	for i := range rapid.IntRange(1, pilots).Draw(t, "pilots") {
		id := pilotID(i)
		row := Row{Pilot: id, Version: ListVersion{testTerm, uint64(rapid.IntRange(0, int(s.n)).Draw(t, "n"))}}
		row.Classes, row.Exceptions = s.answers(t), s.exceptions(t)
		if unbounded {
			for at := range row.Exceptions {
				if e := &row.Exceptions[at]; !e.Infeasible && e.Rank == 3 {
					e.Rank = NothingMissing
				}
			}
		}
		s.clever.SetRow(row)
		p := s.dense.pilot(id)
		p.answered, p.version = true, row.Version.N
		s.take(p, row.Classes, row.Exceptions)
		places := Places{Free: task.Resources{Cores: 9}, FreeSlots: rapid.IntRange(0, 3).Draw(t, "slots")}
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			places = Places{Prefill: places.FreeSlots}
		}
		s.clever.SetPlaces(id, places)
		p.places = places
	}
	return s.clever, s.dense
}

// slotsOf lists the places of one kind, a pilot as often as it has some.
func (d *denseSite) slotsOf(prefill bool) (slots []task.PilotID) {
	for id, p := range d.pilots {
		count := p.places.FreeSlots
		if prefill {
			count = p.places.Prefill
		}
		for range count {
			slots = append(slots, id)
		}
	}
	slices.Sort(slots)
	return slots
}

// score is what a choice is worth as one number: levels far above ranks
// without bound, these far above all others.
func (d *denseSite) score(t *denseTask, rank float64) float64 {
	worth := float64(2*t.Priority+4) * 1e8
	if t.starving {
		worth += 1e8
	}
	if rank >= math.MaxFloat64 {
		return worth + 1e4
	}
	return worth + rank
}

// hungarian is the textbook method on the full matrix: the largest sum of
// scores, every slot with a task of its own or with none for nothing.
func hungarian(scores [][]float64) float64 {
	rows := len(scores)
	if rows == 0 {
		return 0
	}
	cols := len(scores[0]) + rows
	cost := func(i, j int) float64 {
		if j > len(scores[0]) {
			return 0
		}
		return -scores[i-1][j-1]
	}
	u, v := make([]float64, rows+1), make([]float64, cols+1)
	match := make([]int, cols+1)
	for i := 1; i <= rows; i++ {
		match[0] = i
		least, way, used := make([]float64, cols+1), make([]int, cols+1), make([]bool, cols+1)
		for j := range least {
			least[j] = math.Inf(1)
		}
		at := 0
		for match[at] != 0 {
			used[at] = true
			delta, next := math.Inf(1), 0
			for j := 1; j <= cols; j++ {
				if used[j] {
					continue
				}
				if c := cost(match[at], j) - u[match[at]] - v[j]; c < least[j] {
					least[j], way[j] = c, at
				}
				if least[j] < delta {
					delta, next = least[j], j
				}
			}
			for j := range used {
				if used[j] {
					u[match[j]] += delta
					v[j] -= delta
				} else {
					least[j] -= delta
				}
			}
			at = next
		}
		for at != 0 {
			match[at] = match[way[at]]
			at = way[at]
		}
	}
	sum := 0.0
	for j := 1; j <= cols; j++ {
		if match[j] != 0 {
			sum -= cost(match[j], j)
		}
	}
	return sum
}

// best is the largest score for the places of one kind with the tasks that
// are not gone.
func (d *denseSite) best(prefill bool, gone map[uint64]bool) float64 {
	var ready []uint64
	for no, t := range d.tasks {
		if t.ready && !gone[no] {
			ready = append(ready, no)
		}
	}
	slices.Sort(ready)
	var scores [][]float64
	for _, id := range d.slotsOf(prefill) {
		row := make([]float64, len(ready))
		for j, no := range ready {
			row[j] = -1e12
			if rank, feasible := d.rank(id, no); feasible {
				row[j] = d.score(d.tasks[no], rank)
			}
		}
		scores = append(scores, row)
	}
	return hungarian(scores)
}

// checkPairs fails unless the pairs are allowed, and returns the score of
// those of one kind and the tasks of the other kind.
func (d *denseSite) checkPairs(t *rapid.T, pairs []Assignment, prefill bool) (sum float64, others map[uint64]bool) {
	others = make(map[uint64]bool)
	seen, used := make(map[uint64]bool), make(map[task.PilotID]int)
	for _, a := range pairs {
		rank, feasible := d.rank(a.Pilot, a.No)
		if seen[a.No] || !feasible || !d.tasks[a.No].ready || rank != a.Rank {
			t.Fatalf("%+v: seen %v, feasible %v, rank %g", a, seen[a.No], feasible, rank)
		}
		seen[a.No] = true
		if a.Prefill != prefill {
			others[a.No] = true
			continue
		}
		used[a.Pilot]++
		sum += d.score(d.tasks[a.No], rank)
	}
	for id, count := range used {
		if places := d.pilots[id].places; prefill && count > places.Prefill || !prefill && count > places.FreeSlots {
			t.Fatalf("%s has %+v and gets %d", id, places, count)
		}
	}
	return sum, others
}

// TestExactIsTheLargestSum compares with the textbook on the full matrix.
func TestExactIsTheLargestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{2, 5, 12}).Draw(t, "size")
		m, d := drawSite(t, size, size)
		pairs := Exact(m)
		free, _ := d.checkPairs(t, pairs, false)
		if best := d.best(false, nil); free != best {
			t.Fatalf("free slots: %g, best %g\n%+v", free, best, pairs)
		}
		early, started := d.checkPairs(t, pairs, true)
		if best := d.best(true, started); early != best {
			t.Fatalf("prefill: %g, best %g\n%+v", early, best, pairs)
		}
		if again := Exact(m); !slices.Equal(again, pairs) {
			t.Fatalf("the same matrix gives %+v and %+v", pairs, again)
		}
	})
}

// TestHungarianIsBruteForce holds the oracle itself against all choices.
func TestHungarianIsBruteForce(t *testing.T) {
	var try func(scores [][]float64, used uint) float64
	try = func(scores [][]float64, used uint) float64 {
		if len(scores) == 0 {
			return 0
		}
		best := try(scores[1:], used)
		for j, score := range scores[0] {
			if used&(1<<j) == 0 {
				best = max(best, score+try(scores[1:], used|1<<j))
			}
		}
		return best
	}
	rapid.Check(t, func(t *rapid.T) {
		cols := rapid.IntRange(1, 5).Draw(t, "columns")
		row := rapid.SliceOfN(rapid.Map(rapid.IntRange(-9, 9), func(i int) float64 { return float64(i) }), cols, cols)
		scores := rapid.SliceOfN(row, 0, 5).Draw(t, "scores")
		if got, want := hungarian(scores), try(scores, 0); got != want {
			t.Fatalf("%g, want %g", got, want)
		}
	})
}

// TestExactKeepsToResources: tasks that share a pilot's cores are a packing
// problem; the result may miss the best there, but is feasible and leaves no
// place empty that a waiting task would fit.
func TestExactKeepsToResources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newTwinSites(t)
		for class := range uint32(twinClasses) {
			need := task.Resources{Cores: int(class) + 1}
			s.clever.AddClass(ListClass{No: class, Class: task.Class{Resources: need}})
			s.dense.needs[class] = need
		}
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			s.addTasks(t)
		}
		for range 2 * twinPilots {
			s.setRow(t)
			s.setPlaces(t)
		}
		pairs := s.clever.Solve(Exact)
		s.dense.checkPairs(t, pairs, false)
		for _, a := range pairs {
			dense, need := s.dense.pilots[a.Pilot], s.dense.needs[s.dense.tasks[a.No].Class]
			if !dense.places.offers(need, a.Prefill) {
				t.Fatalf("%+v does not fit", a)
			}
			dense.places.take(need, a.Prefill)
			s.dense.tasks[a.No].ready = false
		}
		if left := s.dense.solve(); len(left) > 0 {
			t.Fatalf("%+v could still be placed after %+v", left, pairs)
		}
	})
}

// TestExactBeatsGreedy: greedy takes the 10 and is left with 1; the best is
// 9 + 9.
func TestExactBeatsGreedy(t *testing.T) {
	for _, c := range []struct {
		solver Solver
		sum    float64
	}{{Greedy, 11}, {Exact, 18}} {
		m := crossedSite()
		sum := 0.0
		for _, a := range m.Solve(c.solver) {
			sum += a.Rank
		}
		if sum != c.sum {
			t.Errorf("sum of ranks %g, want %g", sum, c.sum)
		}
	}
}

// crossedSite has two pilots and two tasks with ranks 10 9 / 9 1.
func crossedSite() *Matrix { return rankedSite([][]float64{{10, 9}, {9, 1}}) }

// rankedSite has a pilot with one place per row and a task per column, from 1 on.
func rankedSite(ranks [][]float64) *Matrix {
	m := NewMatrix(testTerm)
	m.AddClass(ListClass{No: 1, Class: task.Class{Resources: task.Resources{Cores: 1}}})
	for i, row := range ranks {
		answer := Row{Pilot: pilotID(i), Version: ListVersion{Term: testTerm}, Classes: []ClassAnswer{{Class: 1, Feasible: true}}}
		for j, rank := range row {
			m.AddTask(MatrixTask{No: uint64(j + 1), Class: 1, Order: uint64(j)})
			m.SetReady(uint64(j+1), true)
			answer.Exceptions = append(answer.Exceptions, Exception{No: uint64(j + 1), Rank: rank})
		}
		m.SetRow(answer)
		m.SetPlaces(pilotID(i), onePlace)
	}
	return m
}
