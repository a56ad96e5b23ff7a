package health

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func name(i int) string { return fmt.Sprintf("node-%d", i) }

// site makes nodes that have each been given work.
func site(count int) *Nodes {
	var s Nodes
	for i := range count {
		s.Given(start, name(i))
	}
	return &s
}

// failed has something fail at a node, with one outcome; elsewhere it has failed before.
func (s *Nodes) failed(now time.Time, node, what string, elsewhere ...string) {
	s.Note(now, End{Node: node, What: what, Why: "exit code 1", Elsewhere: elsewhere})
}

func (s *Nodes) succeeded(now time.Time, node string) { s.Note(now, End{Node: node, OK: true}) }

func (s *Nodes) state(now time.Time, node string) State {
	s.Look(now)
	return s.State(node)
}

// fail has new tasks fail at a node.
func (s *Nodes) fail(now time.Time, node string, tasks int) {
	for i := range tasks {
		s.failed(now, node, fmt.Sprint(node, now, i))
	}
}

func (s *Nodes) expect(t *testing.T, now time.Time, node string, want State) {
	t.Helper()
	if got := s.state(now, node); got != want {
		t.Errorf("after %s %s is in state %d, want %d", now.Sub(start), node, got, want)
	}
}

// Different tasks in a row, at one node of several: five are enough, the same
// task again is not, and a success in between begins anew.
func TestANodeThatStandsOutIsHeld(t *testing.T) {
	s := site(3)
	s.fail(start, name(0), Least-1)
	for range 20 {
		s.failed(start, name(0), "same")
	}
	s.expect(t, start, name(0), Held)
	s.expect(t, start, name(1), Fit)

	s = site(3)
	for range 20 {
		s.failed(start, name(0), "same")
	}
	for range 4 {
		s.fail(start, name(1), Least-1)
		s.succeeded(start, name(1))
	}
	s.expect(t, start, name(0), Fit)
	s.expect(t, start, name(1), Fit)
}

// Pauses grow up to a bound while trials fail; a trial that ends well ends them.
func TestPausesGrow(t *testing.T) {
	s := site(2)
	now := start
	s.fail(now, name(0), Least)
	for i := range 8 {
		pause := min(FirstPause<<i, LastPause)
		s.expect(t, now.Add(pause-1), name(0), Held)
		now = now.Add(pause)
		s.expect(t, now, name(0), Trial)
		s.succeeded(now, name(1))
		s.fail(now, name(0), 1)
	}
	now = now.Add(LastPause)
	s.succeeded(now, name(0))
	s.expect(t, now, name(0), Fit)
	s.fail(now, name(0), Least)
	s.expect(t, now.Add(FirstPause), name(0), Trial)
}

// With nobody to compare with, or with all failing alike, nobody is held: what
// was held by the order of events is let go.
func TestNobodyStandsOutAlone(t *testing.T) {
	s := site(1)
	s.fail(start, name(0), 200)
	s.expect(t, start, name(0), Fit)

	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := site(8)
		for range 8 * 20 {
			s.fail(start, name(random.IntN(8)), 1)
		}
		for i := range 8 {
			s.expect(t, start, name(i), Fit)
		}
	}
}

// Where a part of all tasks fails everywhere, hardly a node is held for it.
func TestChanceHoldsHardlyAnybody(t *testing.T) {
	for _, share := range []float64{.05, .2, .5, .8, .95} {
		random := rand.New(rand.NewPCG(1, 2))
		s := site(50)
		const ends = 100_000
		held := 0
		for i := range ends {
			node := name(random.IntN(50))
			before := s.state(start, node)
			if random.Float64() < share {
				s.failed(start, node, fmt.Sprint(i))
			} else {
				s.succeeded(start, node)
			}
			if before == Fit && s.state(start, node) == Held {
				held++
			}
		}
		if held > ends/2000 {
			t.Errorf("%v of all fail, and nodes were held %d times in %d attempts", share, held, ends)
		}
	}
}

// A task that has failed at two nodes speaks against neither: those that alone
// can run a bad workflow are let go.
func TestTasksThatFailElsewhereAcquit(t *testing.T) {
	s := site(10)
	for i := range Least {
		s.failed(start, name(0), fmt.Sprint(i))
	}
	s.expect(t, start, name(0), Held)
	s.failed(start, name(1), "0", name(0))
	s.expect(t, start, name(0), Fit)
	if n := s.known[name(1)]; len(n.Failed) != 0 {
		t.Errorf("%v count against the second node", n.Failed)
	}
}

// Three nodes of ten, and six of ten, are found out; more failures are asked for.
func TestSeveralBlackHoles(t *testing.T) {
	for _, bad := range []int{3, 6} {
		s := site(10)
		for round := range 20 {
			for i := range 10 {
				if i >= bad {
					s.succeeded(start, name(i))
				} else if s.state(start, name(i)) == Fit {
					s.failed(start, name(i), fmt.Sprint(round, i))
				}
			}
		}
		for i := range 10 {
			want := Fit
			if i < bad {
				want = Held
			}
			s.expect(t, start, name(i), want)
		}
	}
}

// Nodes of which nothing is heard are forgotten, and the sum of shares stays true.
func TestNodesAreForgotten(t *testing.T) {
	s := site(0)
	now := start
	for i := range 10_000 {
		now = now.Add(time.Second)
		if i%3 == 0 {
			s.fail(now, name(i), 7)
		} else {
			s.succeeded(now, name(i))
		}
		s.Look(now)
	}
	if n := len(s.known); n > 5000 {
		t.Errorf("%d nodes are remembered after %s", n, now.Sub(start))
	}
	sum := 0
	for _, n := range s.known {
		sum += n.share()
	}
	if sum != s.sum {
		t.Errorf("the sum of shares is %d, want %d", s.sum, sum)
	}
}

// Whoever looks is told of each turn once, by whatever it came about, and when the
// next one is due by time alone; what another judge thought is taken over once.
func TestLookTellsOfEachTurnOnce(t *testing.T) {
	s := site(3)
	turns := func(now time.Time, want ...string) {
		t.Helper()
		if got := s.Look(now); !slices.Equal(got, want) {
			t.Errorf("after %s %v have turned, want %v", now.Sub(start), got, want)
		}
	}
	s.fail(start, name(1), Least)
	turns(start, name(1))
	turns(start.Add(FirstPause - 1))
	trial := start.Add(FirstPause)
	if got := s.Due(); !got.Equal(trial) {
		t.Errorf("due %s, want %s", got, trial)
	}
	turns(trial, name(1))
	if got := s.Due(); !got.IsZero() || !s.TrialSince(name(1)).Equal(trial) {
		t.Errorf("due %s, on trial since %s", got, s.TrialSince(name(1)))
	}
	marks := s.Marks(trial)
	s.succeeded(trial, name(1))
	turns(trial, name(1))
	turns(trial.Add(LastPause))

	s = site(3)
	s.Restore(trial, marks)
	s.Restore(trial, []task.NodeMark{{Name: name(2), Failed: Least, Pauses: 1, Left: LastPause}})
	turns(trial, name(1))
	if got := s.Marks(trial); !slices.Equal(got, marks) || s.State(name(1)) != Trial {
		t.Errorf("took over %v, want %v", got, marks)
	}
}

// A node that is set back gets nothing, one on trial a single task at a time.
func TestTrialIsOneTask(t *testing.T) {
	for _, c := range []struct {
		state               State
		busy                bool
		free, early         int
		wantFree, wantEarly int
	}{
		{Fit, true, 3, 2, 3, 2}, {Held, false, 3, 2, 0, 0}, {Trial, true, 3, 2, 0, 0}, {Trial, false, 3, 2, 1, 0}, {Trial, false, 0, 2, 0, 0},
	} {
		if free, early := c.state.Allows(c.free, c.early, func() bool { return c.busy }); free != c.wantFree || early != c.wantEarly {
			t.Errorf("%+v: %d and %d", c, free, early)
		}
	}
}
