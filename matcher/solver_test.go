package matcher

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// TestSequentialServesOneByOne: each pilot takes what it ranks highest of
// what those before it have left.
func TestSequentialServesOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, d := drawSite(t, 5, 8)
		turn := make([]task.PilotID, len(d.pilots))
		for i := range turn {
			turn[i] = pilotID(i)
		}
		turn = rapid.Permutation(turn).Draw(t, "turn")
		named := rapid.IntRange(0, len(turn)).Draw(t, "named")
		slices.Sort(turn[named:])
		all := maps.Clone(d.pilots)
		var want []Assignment
		for _, prefill := range []bool{false, true} {
			for _, id := range turn {
				d.pilots = map[task.PilotID]*densePilot{id: all[id]}
				want = append(want, d.solveKind(prefill, nil)...)
			}
		}
		if got := InTurn(turn[:named]...)(m); !slices.Equal(got, want) {
			t.Fatalf("%+v\nwant %+v", got, want)
		}
	})
}

// TestChooseTakesOneOfTheBest (001, section 3.3) checks each draw against the
// n best tasks that the pilot could have had.
func TestChooseTakesOneOfTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, d := drawSite(t, 4, 10)
		n := rapid.IntRange(1, 4).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		got := Choose(n, rand.New(rand.NewPCG(seed, 1)))(m)
		if again := Choose(n, rand.New(rand.NewPCG(seed, 1)))(m); !slices.Equal(got, again) {
			t.Fatalf("one seed gives %+v and %+v", got, again)
		}
		all := maps.Clone(d.pilots)
		for _, a := range got {
			d.pilots = map[task.PilotID]*densePilot{a.Pilot: {
				answered: true, version: all[a.Pilot].version, answers: all[a.Pilot].answers,
				exceptions: all[a.Pilot].exceptions, places: Places{Prefill: n},
			}}
			before := d.ready()
			var allowed []uint64
			for i, best := range d.solveKind(true, nil) {
				if i == 0 || d.tasks[best.No].Priority == d.tasks[allowed[0]].Priority {
					allowed = append(allowed, best.No)
				}
			}
			for _, no := range before {
				d.tasks[no].ready = true
			}
			if !slices.Contains(allowed, a.No) {
				t.Fatalf("%+v is not among the %d best, %v", a, n, allowed)
			}
			d.tasks[a.No].ready = false
		}
		if n == 1 {
			if want := Sequential(m); !slices.Equal(got, want) {
				t.Fatalf("n = 1 gives %+v, in turn %+v", got, want)
			}
		}
	})
}

// TestDrawIsProportional (001, section 3.3, and where it is silent).
func TestDrawIsProportional(t *testing.T) {
	for _, c := range []struct {
		name   string
		ranks  []float64
		shares []float64
	}{
		{"proportional", []float64{6, 3, 1}, []float64{0.6, 0.3, 0.1}},
		{"huge", []float64{1e308, 1e308}, []float64{0.5, 0.5}},
		{"tiny", []float64{5e-324, 0}, []float64{1, 0}},
		{"all zero", []float64{0, 0, 0, 0}, []float64{0.25, 0.25, 0.25, 0.25}},
		{"all unbounded", []float64{NothingMissing, NothingMissing}, []float64{0.5, 0.5}},
		{"unbounded first", []float64{NothingMissing, 5, 0}, []float64{1, 0, 0}},
		{"costs", []float64{-1, -2, -4}, []float64{4. / 7, 2. / 7, 1. / 7}},
		{"no cost first", []float64{0, -2, -4}, []float64{1, 0, 0}},
		{"both signs", []float64{3, 1, -1}, []float64{2. / 3, 1. / 3, 0}},
		{"alone", []float64{7}, []float64{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 1))
			counts := make([]float64, len(c.ranks))
			const draws = 5_000
			for range draws {
				counts[Draw(c.ranks, random)]++
			}
			for i, count := range counts {
				if math.Abs(count/draws-c.shares[i]) > 0.03 || c.shares[i] == 0 && count > 0 {
					t.Errorf("drawn %v of %d, want shares %v", counts, draws, c.shares)
					break
				}
			}
		})
	}
}

// TestSolverNames reads what it writes, and refuses the rest with a hint.
func TestSolverNames(t *testing.T) {
	for text, name := range map[string]string{
		"": "greedy", "greedy": "greedy", "exact": "exact", "sequential": "sequential",
		"choose(2)": "choose(2)", "choose( 1000 )": "choose(1000)",
		"dad(0.5, 2)": "dad(0.5,2)",
	} {
		choice, err := ParseSolver(text)
		if err != nil || choice.String() != name {
			t.Errorf("%q is %v, %v", text, choice, err)
		}
		if back, err := ParseSolver(choice.String()); err != nil || back != choice {
			t.Errorf("%v reads back as %v, %v", choice, back, err)
		}
		if choice.Random() != strings.HasPrefix(name, "choose") {
			t.Errorf("%s draws: %v", name, choice.Random())
		}
		if got := choice.Solver(rand.New(rand.NewPCG(1, 1)))(crossedSite()); len(got) != 2 {
			t.Errorf("%s assigns %+v", name, got)
		}
	}
	for _, text := range []string{"Greedy", "hungarian", "choose", "choose()", "choose(0)", "choose(-1)", "choose(1001)", "choose(99999999999)", "dad", "dad(0.5)", "dad(x,1)"} {
		if choice, err := ParseSolver(text); err == nil || !strings.Contains(err.Error(), "give ") {
			t.Errorf("%q is %v, %v", text, choice, err)
		}
	}
}
