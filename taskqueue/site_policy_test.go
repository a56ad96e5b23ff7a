package taskqueue_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Where the queue matches, ranks see what runs at a pilot (004, section II): it
// gets one task at a time, and each changes what the next one is.
func TestTheQueueMatchesByWhatRuns(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	p := d.solo("A", "p1", 3)
	s := taskqueue.Submission{Name: "kinds"}
	for i, bound := range []task.Bound{task.IOBound, task.IOBound, task.CPUBound, task.CPUBound} {
		one := job("t"+string(rune('0'+i)), nil, nil)
		one.Bound, one.Rank = bound, `task.bound == "io" ? -pilot.io_bound : -pilot.cpu_bound`
		s.Tasks = append(s.Tasks, one)
	}
	w := d.mustSubmit(s)
	d.maker.Changed(&d.effects)
	for _, name := range []string{"t0", "t2", "t1"} {
		if got, want := p.pull(), []task.ID{task.NewID(w, name)}; !slices.Equal(got, want) {
			t.Fatalf("the pilot got %v, want %v", got, want)
		}
	}
	if got := p.pull(); len(got) > 0 {
		t.Errorf("without a free slot the pilot got %v", got)
	}
}

// Solvers and ranks that a site could not use are refused when they are set,
// and say what to give instead.
func TestPoliciesOfSites(t *testing.T) {
	g := newGrid(t)
	for _, c := range []struct {
		mode         taskqueue.Mode
		solver, rank string
		want         string
	}{
		{"", "", "", ""}, {"", "exact", "rest", ""}, {"", "choose(3)", "combined", ""}, {"", "dad(0.5,3)", "dad(0.8)", ""},
		{taskqueue.ModeCentralized, "exact", "overlap", ""}, {taskqueue.ModeCentralized, "choose(2)", "double(pilot.cores)", ""},
		{taskqueue.ModeCentralized, "dad(0.5,3)", "dad(0.8)", "give mode distributed"},
		{"", "best", "", "greedy, exact"}, {"", "choose(0)", "", "choose(1)"}, {"", "", "pilot.kores", "kores"},
		{"", "dad(0.5,3)", "", "give the rank dad(BETA)"}, {"", "dad(0.9,3)", "dad(0.8)", "at most 0.8"},
		{"", "", strings.Repeat("1+", task.MaxExpression) + "1", "longer than"},
	} {
		err := g.update(func(turn *taskqueue.Turn) error {
			_, err := g.rules.AddSite(turn, taskqueue.SiteRecord{Name: "A", SiteSettings: taskqueue.SiteSettings{Mode: c.mode, Solver: c.solver, Rank: c.rank}})
			return err
		})
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, taskqueue.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("mode %q, solver %q, rank %.40q: %v, want %q", c.mode, c.solver, c.rank, err, c.want)
		}
		if site := g.siteRecord("A"); err == nil {
			if s := g.rules.Settings(site); s.Solver != c.solver || s.Rank != c.rank {
				t.Errorf("solver %q and rank %q are told as %q and %q", c.solver, c.rank, s.Solver, s.Rank)
			}
		}
	}
}

// Replica policies are those that a master can carry out.
func TestReplicaPoliciesOfSites(t *testing.T) {
	g := newGrid(t)
	for _, c := range []struct {
		mode            taskqueue.Mode
		replicate, want string
	}{
		{"", "", ""}, {"", "alpha(15)", ""}, {"", "alpha(5); plans(600,8,eliminate)", ""}, {taskqueue.ModeIsolated, "", ""},
		{"", "alpha", "alpha(15)"}, {"", "beta(2)", "plans(SECONDS,LIMIT)"}, {"", "alpha(2);fcfs", "the solver gives out"},
		{taskqueue.ModeCentralized, "alpha(2)", "give mode distributed"}, {taskqueue.ModeIsolated, "alpha(2)", "give mode distributed"},
		{"", strings.Repeat("alpha(1);", task.MaxExpression), "longer than"},
	} {
		err := g.update(func(turn *taskqueue.Turn) error {
			_, err := g.rules.AddSite(turn, taskqueue.SiteRecord{Name: "A", SiteSettings: taskqueue.SiteSettings{SE: "file:///se/A", Mode: c.mode, Replicate: c.replicate}})
			return err
		})
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, taskqueue.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("mode %q, policies %.40q: %v, want %q", c.mode, c.replicate, err, c.want)
		}
		if s := g.rules.Settings(g.siteRecord("A")); err == nil && s.Replicate != c.replicate {
			t.Errorf("policies %q are told as %q", c.replicate, s.Replicate)
		}
	}
}

// Where the queue matches, it ranks by the site's rank the tasks that give
// none, and by another one as soon as the site is given it.
func TestTheQueueMatchesByTheRankOfTheSite(t *testing.T) {
	d := newDesk(newGrid(t))
	ranked := func(rank string) func(*taskqueue.SiteRecord) {
		return func(s *taskqueue.SiteRecord) { s.Mode, s.Rank = taskqueue.ModeCentralized, rank }
	}
	d.addSite("A", ranked("double(task.cores)"))
	p := d.solo("A", "p1", 3)
	s := taskqueue.Submission{Name: "sizes"}
	for i, cores := range []int{1, 2, 1, 2} {
		wide := job("t"+string(rune('0'+i)), nil, nil)
		wide.Resources.Cores = cores
		s.Tasks = append(s.Tasks, wide)
	}
	own := job("own", nil, nil)
	own.Rank = "7"
	s.Tasks = append(s.Tasks, own)
	w := d.mustSubmit(s)
	d.maker.Changed(&d.effects)
	if got, want := p.pull(), []task.ID{task.NewID(w, "own"), task.NewID(w, "t1")}; !slices.Equal(got, want) {
		t.Errorf("by the number of cores the pilot got %v, want %v", got, want)
	}
	for _, name := range []string{"own", "t1"} {
		p.finish(task.NewID(w, name))
	}
	d.addSite("A", ranked("0.0 - double(task.cores)"))
	if got, want := p.pull(), []task.ID{task.NewID(w, "t0"), task.NewID(w, "t2")}; !slices.Equal(got, want) {
		t.Errorf("by few cores the pilot got %v, want %v", got, want)
	}
}
