package taskqueue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// grid is a queue with sites whose masters and pilots are played by the test.
type grid struct {
	t       judge
	store   taskqueue.Store
	rules   *taskqueue.Rules
	clock   taskqueue.Instant
	skew    time.Duration // by which the wall clock is wrong
	random  *rand.Rand
	effects taskqueue.Effects
	crews   map[task.Site]*crew
	names   []task.Site
}

// judge is what a grid asks of a test; testing and rapid both give it.
type judge interface {
	Helper()
	Errorf(format string, arguments ...any)
	Fatalf(format string, arguments ...any)
	Error(arguments ...any)
	Failed() bool
	FailNow()
}

func newGrid(t testing.TB) *grid {
	store := mem.New()
	t.Cleanup(func() { _ = store.Close() })
	return gridOn(t, store)
}

func gridOn(t judge, store taskqueue.Store) *grid {
	return &grid{
		t:      t,
		store:  store,
		rules:  taskqueue.NewRules(taskqueue.DefaultConfig()),
		clock:  taskqueue.Instant(time.Hour),
		random: rand.New(rand.NewPCG(1, 2)),
		crews:  make(map[task.Site]*crew),
	}
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (g *grid) turn(tx taskqueue.Tx) *taskqueue.Turn {
	return &taskqueue.Turn{Tx: tx, Clock: g.clock, Wall: epoch.Add(time.Duration(g.clock) + g.skew), Random: g.random, Effects: &g.effects}
}

// update runs rules in one transaction.
func (g *grid) update(change func(*taskqueue.Turn) error) error {
	g.effects = taskqueue.Effects{}
	return g.store.Update(context.Background(), func(tx taskqueue.Tx) error { return change(g.turn(tx)) })
}

func (g *grid) must(change func(*taskqueue.Turn) error) {
	g.t.Helper()
	if err := g.update(change); err != nil {
		g.t.Fatalf("%v", err)
	}
}

func (g *grid) view(read func(*taskqueue.Turn) error) {
	g.t.Helper()
	err := g.store.View(context.Background(), func(tx taskqueue.Tx) error { return read(g.turn(tx)) })
	if err != nil {
		g.t.Fatalf("%v", err)
	}
}

func (g *grid) tick(d time.Duration) {
	g.t.Helper()
	g.clock = g.clock.Add(d)
	g.must(func(t *taskqueue.Turn) error { return g.rules.Tick(t) })
}

// addSite adds a site with a storage element that may read all others.
func (g *grid) addSite(name task.Site, change ...func(*taskqueue.SiteRecord)) *crew {
	g.t.Helper()
	record := taskqueue.SiteRecord{Name: name, SiteSettings: taskqueue.SiteSettings{SE: "file:///se/" + string(name), RemoteRead: true}}
	for _, c := range change {
		c(&record)
	}
	g.must(func(t *taskqueue.Turn) error {
		_, err := g.rules.AddSite(t, record)
		return err
	})
	if g.crews[name] == nil {
		g.crews[name] = &crew{grid: g, site: name}
		g.names = append(g.names, name)
	}
	g.crews[name].forget()
	return g.crews[name]
}

func (g *grid) submit(s taskqueue.Submission) (out taskqueue.Submitted, err error) {
	err = g.update(func(t *taskqueue.Turn) error {
		out, err = g.rules.Submit(t, s)
		return err
	})
	return out, err
}

func (g *grid) mustSubmit(s taskqueue.Submission) task.WorkflowID {
	g.t.Helper()
	out, err := g.submit(s)
	if err != nil {
		g.t.Fatalf("submit: %v", err)
	}
	return out.Workflow
}

func (g *grid) state(id task.ID) (state taskqueue.TaskState) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) error {
		found, err := t.Tasks().Load(id)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("no task %s", id)
		}
		if err == nil {
			state = found[0]
		}
		return err
	})
	return state
}

func (g *grid) workflow(id task.WorkflowID) (w taskqueue.Workflow) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) error {
		found, err := t.Workflows().Load(id)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("no workflow %s", id)
		}
		if err == nil {
			w = found[0]
		}
		return err
	})
	return w
}

func (g *grid) siteRecord(name task.Site) (site taskqueue.SiteRecord) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) error {
		found, err := t.Sites().Load(name)
		if err == nil {
			site = found[0]
		}
		return err
	})
	return site
}

func (g *grid) file(name task.LFN) (file taskqueue.FileRecord) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) error {
		found, err := t.Files().Load(name)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("no file %s", name)
		}
		if err == nil {
			file = found[0]
		}
		return err
	})
	return file
}

// expect fails unless the tasks are in the state.
func (g *grid) expect(state task.State, ids ...task.ID) {
	g.t.Helper()
	for _, id := range ids {
		if s := g.state(id); s.State != state {
			g.t.Errorf("%s is %s (%s), want %s", id.Name(), s.State, s.Reason, state)
		}
	}
}

// job describes a task in tests: "name", inputs, outputs.
func job(name string, inputs, outputs []string) task.Task {
	t := task.Task{
		ID:        task.ID("/" + name),
		Argv:      []string{"run", name},
		Resources: task.Resources{Cores: 1, Memory: task.DefaultMemory, Disk: task.DefaultDisk},
		Retries:   2,
		Walltime:  time.Hour,
	}
	for _, in := range inputs {
		t.Inputs = append(t.Inputs, task.Input{LFN: task.LFN(in), Name: in})
	}
	for _, out := range outputs {
		t.Outputs = append(t.Outputs, task.Output{LFN: task.LFN(out), Name: out})
	}
	return t
}

// at describes an external file with copies at sites.
func at(name string, size task.Bytes, sites ...task.Site) task.File {
	f := task.File{LFN: task.LFN(name), Size: size}
	for _, site := range sites {
		f.Replicas = append(f.Replicas, task.Replica{Site: site, URL: "file:///se/" + string(site) + "/" + name})
	}
	return f
}
