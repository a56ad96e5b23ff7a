package taskqueue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// jobs are count tasks of the same inputs.
func jobs(name string, count int, inputs ...string) (tasks []task.Task) {
	for i := range count {
		tasks = append(tasks, job(fmt.Sprintf("%s[%02d]", name, i), inputs, nil))
	}
	return tasks
}

// readersOfA submits tasks that read a file of A's storage element, while A runs
// so many tasks on two slots and B has two free slots.
func (g *grid) readersOfA(running, readers int) (a, b *crew, w task.WorkflowID) {
	g.t.Helper()
	a, b = g.addSite("A"), g.addSite("B")
	g.warmUp(a)
	a.join("peerA", 2)
	if running > 0 {
		g.mustSubmit(taskqueue.Submission{Name: "first", Tasks: jobs("f", running)})
	}
	a.sync()
	for _, lt := range a.waiting() {
		a.start(lt.Task.ID, a.members[0])
	}
	a.sync()
	b.join("peerB", 2)
	return a, b, g.mustSubmit(taskqueue.Submission{Name: "readers", Files: []task.File{at("x", 1000, "A")}, Tasks: jobs("r", readers, "x")})
}

func TestReadersAreLeftToTheFreeSlotsOfTheirInputsSite(t *testing.T) {
	still := func(*grid, *crew) {}
	for name, c := range map[string]struct {
		running, readers int
		before           func(g *grid, a *crew) // B asks
		got              int
	}{
		"A has slots for them":      {0, 2, still, 0},
		"A has a slot for one":      {1, 2, still, 1},
		"A has no slot for them":    {2, 2, still, 2},
		"more than A has slots for": {0, 10, still, 5},
		"A drains": {0, 2, func(g *grid, a *crew) {
			g.must(func(t *taskqueue.Turn) error { return g.rules.DrainSite(t, a.site, true) })
		}, 2},
		"A is silent": {0, 2, func(g *grid, _ *crew) { g.clock = g.clock.Add(11 * time.Second) }, 2},
		"A takes nothing for a while": {0, 2, func(g *grid, _ *crew) {
			g.clock = g.clock.Add(4 * time.Second)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrid(t)
			a, b, _ := g.readersOfA(c.running, c.readers)
			c.before(g, a)
			b.sync()
			if got := len(b.held()); got != c.got {
				t.Errorf("B holds %v, want %d tasks", b.held(), c.got)
			}
			a.sync()
			if c.got == 0 && len(a.held()) != c.readers {
				t.Errorf("A holds %v, want all readers", a.held())
			}
			g.check()
		})
	}
}

// Who waits for a slot is told to whom free slots leave the task, and for how
// long at most.
func TestLeftTasksAreExplained(t *testing.T) {
	g := newGrid(t)
	a, b, w := g.readersOfA(0, 2)
	b.sync()
	why := func(site task.Site) string {
		why := "the site is not explained"
		g.view(func(turn *taskqueue.Turn) error {
			e, err := g.rules.Explain(turn, task.NewID(w, "r[00]"))
			for _, x := range e.Sites {
				if x.Site == site {
					why = x.Why
				}
			}
			return err
		})
		return why
	}
	g.clock = g.clock.Add(time.Second)
	if got := why("B"); !strings.HasPrefix(got, "leaves it for at most 2s to site A, which has most bytes of its inputs") {
		t.Errorf("B: %q", got)
	}
	if got := why("A"); strings.Contains(got, "leaves it") {
		t.Errorf("A: %q", got)
	}
	a.sync()
	record := g.siteRecord("A")
	record.Capacity.FreeSlots, record.Capacity.Running, record.Capacity.Assigned = 0, 2, 0
	g.must(func(t *taskqueue.Turn) error { return t.Sites().Save(record) })
	if got := why("A"); !strings.Contains(got, "2 slots, 0 of them free") || strings.Contains(got, "leaves it") {
		t.Errorf("A, which has it by now and no free slot: %q", got)
	}
	record.Capacity.FreeSlots, record.Capacity.Running, record.Capacity.Assigned = 1, 3, 2
	g.must(func(t *taskqueue.Turn) error { return t.Sites().Save(record) })
	if got := why("A"); !strings.Contains(got, "2 slots, 1 of them free;") || !strings.Contains(got, "have run and are being reported, 2 are with pilots") ||
		!strings.Contains(got, "a free slot leaves it, for at most 30s from now, to a pilot where it starts sooner") {
		t.Errorf("A with a free slot: %q", got)
	}
	g.clock = g.clock.Add(time.Minute)
	if got := why("A"); strings.Contains(got, "leaves it") {
		t.Errorf("A after the wait: %q", got)
	}
}

// A recall takes what is no closer to the loaded site, and with tasks those
// that read what they make.
func TestRecallLeavesReadersWithTheirInputs(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	g.warmUp(a)
	a.join("peerA", 2)
	tasks := jobs("f", 2)
	for i := range 4 {
		made := fmt.Sprintf("made%d", i)
		tasks = append(tasks, job(fmt.Sprintf("m[%d]", i), nil, []string{made}), job(fmt.Sprintf("u[%d]", i), []string{made}, nil))
	}
	tasks = append(tasks, jobs("r", 2, "x")...)
	g.mustSubmit(taskqueue.Submission{Name: "w", Files: []task.File{at("x", 1000, "A")}, Tasks: tasks})
	a.sync()
	if len(a.held()) != len(tasks) {
		t.Fatalf("A holds %v, want all: nobody else is live", a.held())
	}
	for _, lt := range a.waiting()[:2] {
		a.start(lt.Task.ID, a.members[0])
	}
	a.sync()
	b.join("peerB", 1)
	b.sync()
	g.tick(time.Second)
	a.sync() // learns of the recall, and returns with the next one
	for _, r := range a.reply.Revoked {
		if name := r.Task.Name(); name[0] == 'r' {
			t.Errorf("%s is recalled from its input", name)
		}
	}
	a.sync()
	b.sync()
	for _, name := range b.held() {
		if name[0] == 'f' || name[0] == 'r' {
			t.Errorf("B holds %s", name)
		}
	}
	makers := 0
	for i := range 4 {
		m, u := fmt.Sprintf("m[%d]", i), fmt.Sprintf("u[%d]", i)
		if slices.Contains(b.held(), m) {
			makers++
			if !slices.Contains(b.held(), u) {
				t.Errorf("B holds %s without %s, which reads what it makes: %v", m, u, b.held())
			}
		}
	}
	if makers == 0 {
		t.Errorf("B holds %v, want some of the makers", b.held())
	}
	g.check()
}
