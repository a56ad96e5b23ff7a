package taskqueue_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// chain is a workflow: in -> a -> b -> out, with a side output of a that nobody reads.
func chain() taskqueue.Submission {
	return taskqueue.Submission{
		Name: "chain", Files: []task.File{at("in", 5, "A")}, Outputs: []string{"out"},
		Tasks: []task.Task{job("a", []string{"in", "vo:ref"}, []string{"mid", "side"}), job("b", []string{"mid"}, []string{"out"})},
	}
}

// cleared is a grid with a workflow that is done and whose files are all stored.
func cleared(t *testing.T) (g *grid, a *crew, w task.WorkflowID) {
	g = newGrid(t)
	a = g.addSite("A")
	g.rules.Config.Workflow.SweepPage = 1 // a turn does next to nothing: what is between two turns is tested
	a.join("peer1", 4)
	g.must(func(t *taskqueue.Turn) error {
		_, err := g.rules.RegisterFiles(t, []task.File{at("ref", 1, "A")}, "")
		return err
	})
	return g, a, a.play(chain())
}

// play runs a workflow to its end, and stores all that it makes.
func (c *crew) play(s taskqueue.Submission) task.WorkflowID {
	c.t.Helper()
	w := c.mustSubmit(s)
	for range 8 {
		c.sync()
		c.work()
		for _, name := range c.made() {
			c.upload(name)
		}
		c.sync()
	}
	return w
}

// sweep ticks until nothing is left to clear away, with the site's Syncs in between.
func (c *crew) sweep(after time.Duration) {
	c.t.Helper()
	c.clock = c.clock.Add(after)
	for range 120 {
		c.tick(1100 * time.Millisecond)
		c.check()
		if c.sync(); c.clock%7 == 0 {
			c.check()
		}
	}
}

func (g *grid) files(prefix string) (names []string) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) error {
		found, err := t.Files().List(prefix, "", 100)
		for i := range found {
			if len(found[i].Replicas)+len(found[i].Announced) > 0 {
				names = append(names, found[i].LFN.Local())
			}
		}
		return err
	})
	return names
}

// toDelete lists the local names of copies that are to be deleted.
func (g *grid) toDelete() (names []string) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) error {
		garbage, named, err := g.rules.Garbage(t, 100)
		if len(named) > 0 {
			g.t.Errorf("to be deleted and named: %v", named)
		}
		for _, replica := range garbage {
			names = append(names, replica.URL[strings.LastIndex(replica.URL, "/")+1:])
		}
		return err
	})
	slices.Sort(names)
	return names
}

func expectNames(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A workflow goes with its records and with copies that its tasks have stored; what a
// user gave stays, and its shared files are read by one task less.
func TestDeletedWorkflowLeavesNothing(t *testing.T) {
	g, a, w := cleared(t)
	var would taskqueue.Removal
	g.view(func(t *taskqueue.Turn) (err error) {
		would, err = g.rules.DeleteWorkflow(t, w, true)
		return err
	})
	if want := (taskqueue.Removal{Tasks: 2, Files: 4, Copies: 3, Bytes: would.Bytes, Others: 1}); would != want || would.Bytes == 0 {
		t.Errorf("would go: %+v, want %+v", would, want)
	}
	g.must(func(t *taskqueue.Turn) error {
		_, err := g.rules.DeleteWorkflow(t, w, false)
		return err
	})
	if _, err := g.submit(taskqueue.Submission{Name: "open", Key: "k", More: true, Tasks: []task.Task{job("x", nil, nil)}}); err != nil {
		t.Fatal(err)
	}
	a.sweep(0)
	expectNames(t, "files", g.files(string(w)))
	expectNames(t, "to be deleted", g.toDelete(), "mid", "out", "side")
	if f := g.file("vo:ref"); f.Uses != 0 || len(f.Replicas) != 1 {
		t.Errorf("the shared file: %+v", f)
	}
	g.view(func(turn *taskqueue.Turn) error {
		found, err := turn.Workflows().Load(w)
		tasks, err2 := turn.Tasks().InWorkflow(w, 0, 10)
		text, err3 := turn.Meta().Get("clearing")
		if len(found)+len(tasks)+len(text) > 0 {
			t.Errorf("left: %v, %v, %s", found, tasks, text)
		}
		return errors.Join(err, err2, err3)
	})
	if made := a.made(); len(made) > 0 {
		for _, name := range made {
			if len(a.copies[name]) > 0 {
				t.Errorf("the caches have %s still", name)
			}
		}
	}
	open := g.mustSubmit(taskqueue.Submission{Name: "open2", Tasks: []task.Task{job("x", nil, nil)}})
	if err := g.update(func(t *taskqueue.Turn) error { _, err := g.rules.DeleteWorkflow(t, open, false); return err }); !errors.Is(err, taskqueue.ErrConflict) {
		t.Errorf("a workflow that runs is deleted: %v", err)
	}
}

// Copies of intermediates go when their workflow has been done for long, and only then. A
// later run of the same name runs only what something needs that runs.
func TestIntermediatesGo(t *testing.T) {
	g, a, w := cleared(t)
	failed := chain()
	failed.Name, failed.KeepIntermediates = "kept", true
	kept := a.play(failed)
	bad := chain()
	bad.Name = "bad"
	badFlow := g.mustSubmit(bad)
	a.sync()
	a.end(task.NewID(badFlow, "a"), a.succeed(a.start(task.NewID(badFlow, "a"), a.members[0])))
	a.sync()
	a.upload(task.Qualify(badFlow, "mid"))
	a.upload(task.Qualify(badFlow, "side"))
	a.sync()
	g.must(func(t *taskqueue.Turn) error { _, err := g.rules.CancelWorkflow(t, badFlow); return err })
	a.sync()
	a.sweep(6 * 24 * time.Hour)
	expectNames(t, "files after 6 days", g.files(string(w)), "in", "mid", "out", "side")
	a.sweep(25 * time.Hour)
	expectNames(t, "files after a week", g.files(string(w)), "in", "out")
	expectNames(t, "to be deleted", g.toDelete(), "mid", "side")
	expectNames(t, "files of who keeps them", g.files(string(kept)), "in", "mid", "out", "side")
	expectNames(t, "files of who was cancelled", g.files(string(badFlow)), "in", "mid", "side")

	out, err := g.submit(chain())
	if err != nil || out.Reused != 2 || out.Again != 0 {
		t.Errorf("all over again: %+v, %v", out, err)
	}
	a.sweep(8 * 24 * time.Hour) // the URLs are those of the run before: they stay as long as one of the two has them
	more := chain()
	more.Tasks = append(more.Tasks, job("c", []string{"mid"}, []string{"more"}))
	more.Outputs = append(more.Outputs, "more")
	out, err = g.submit(more)
	if err != nil || out.Reused != 1 || out.Again != 1 || out.AgainCPU == 0 {
		t.Errorf("with one more reader of what has gone: %+v, %v", out, err)
	}
	for range 4 {
		a.sync()
		a.work()
		for _, name := range a.made() {
			a.upload(name)
		}
	}
	a.sync()
	if !g.workflow(out.Workflow).Finished() {
		t.Errorf("it does not end: %+v", g.workflow(out.Workflow))
	}
	g.check()
}

// A copy stays while any run names it, and goes with the last one.
func TestSharedCopiesGoWithTheLastRun(t *testing.T) {
	g, a, first := cleared(t)
	second := a.play(chain())
	url := func(w task.WorkflowID) string { return g.file(task.Qualify(w, "out")).Replicas[0].URL }
	if url(first) != url(second) {
		t.Fatal("the second run has a copy of its own")
	}
	for _, w := range []task.WorkflowID{first, second} {
		expectNames(t, "before "+string(w)+" goes", g.toDelete())
		g.must(func(t *taskqueue.Turn) error { _, err := g.rules.DeleteWorkflow(t, w, false); return err })
		a.sweep(0)
	}
	expectNames(t, "when both have gone", g.toDelete(), "mid", "out", "side")
}

// Workflows that have been done for long go, and leave their final outputs, which can be
// removed one by one.
func TestRetiredWorkflowsLeaveTheirOutputs(t *testing.T) {
	g, a, w := cleared(t)
	g.rules.Config.Retain.Workflows = 48 * time.Hour
	running := g.mustSubmit(taskqueue.Submission{Name: "waits", AllowMissing: true, Tasks: []task.Task{job("x", []string{"vo:none"}, nil)}})
	a.sweep(49 * time.Hour)
	expectNames(t, "files", g.files(string(w)), "out")
	expectNames(t, "to be deleted", g.toDelete(), "mid", "side")
	g.workflow(running)
	out := task.Qualify(w, "out")
	for _, dry := range []bool{true, false} {
		g.must(func(turn *taskqueue.Turn) error {
			r, err := g.rules.RemoveFile(turn, out, dry)
			if r.Copies != 1 {
				t.Errorf("removed: %+v", r)
			}
			return err
		})
	}
	a.sync()
	a.sync()
	expectNames(t, "files", g.files(string(w)))
	expectNames(t, "to be deleted", g.toDelete(), "mid", "out", "side")
	g.view(func(turn *taskqueue.Turn) error {
		left, err := turn.Files().List(string(w), "", 10)
		if len(left) > 0 {
			t.Errorf("entries are left: %+v", left)
		}
		return err
	})
}

// Workflows that have failed or were cancelled go after the same time: until then all
// their files stay, and then what is left of them are final outputs that are stored, and
// the accounts.
func TestWorkflowsThatEndedBadlyRetire(t *testing.T) {
	g, a, _ := cleared(t)
	g.rules.Config.Retain.Workflows = 48 * time.Hour
	begun := func(name string) task.WorkflowID {
		s := chain()
		s.Name, s.Outputs, s.Fresh, s.Tasks[1].Retries = name, []string{"out", "side"}, true, 0
		w := g.mustSubmit(s)
		a.sync()
		a.end(task.NewID(w, "a"), a.succeed(a.start(task.NewID(w, "a"), a.members[0])))
		a.sync()
		a.upload(task.Qualify(w, "mid"))
		a.upload(task.Qualify(w, "side"))
		a.sync()
		return w
	}
	failed, cancelled := begun("failed"), begun("cancelled")
	b := task.NewID(failed, "b")
	a.end(b, a.fail(a.start(b, a.members[0]), task.PayloadFailed))
	a.sync()
	g.must(func(t *taskqueue.Turn) error { _, err := g.rules.CancelWorkflow(t, cancelled); return err })
	a.sync()
	g.expect(task.Failed, b)
	a.sweep(47 * time.Hour)
	a.sync()
	for _, w := range []task.WorkflowID{failed, cancelled} {
		expectNames(t, "files before", g.files(string(w)), "in", "mid", "side")
		g.workflow(w)
	}
	a.sweep(61 * time.Minute)
	a.sync()
	for _, w := range []task.WorkflowID{failed, cancelled} {
		expectNames(t, "files", g.files(string(w)), "side")
		g.view(func(turn *taskqueue.Turn) error {
			found, err := turn.Workflows().Load(w)
			tasks, err2 := turn.Tasks().InWorkflow(w, 0, 10)
			all, err3 := turn.Usage().Since("2026-01-01", taskqueue.UsageKey{}, 10)
			if len(found)+len(tasks) > 0 || len(all) != 1 || all[0].Tasks != 4 || all[0].Failures != 1 {
				t.Errorf("left: %v, %v; accounts %+v", found, tasks, all)
			}
			return errors.Join(err, err2, err3)
		})
	}
	expectNames(t, "to be deleted", g.toDelete(), "mid", "mid", "mid", "side") // the last of who was done
}

// A file is not removed while somebody needs it.
func TestNeededFilesAreNotRemoved(t *testing.T) {
	g, a, w := cleared(t)
	reader := g.mustSubmit(taskqueue.Submission{Name: "reads", Tasks: []task.Task{job("x", []string{"vo:ref"}, []string{"y"})}})
	remove := func(name task.LFN) error {
		return g.update(func(t *taskqueue.Turn) error { _, err := g.rules.RemoveFile(t, name, false); return err })
	}
	for _, name := range []task.LFN{"vo:ref", task.Qualify(reader, "y")} {
		if err := remove(name); !errors.Is(err, taskqueue.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := remove("vo:none"); !errors.Is(err, taskqueue.ErrNotFound) {
		t.Errorf("what is not there: %v", err)
	}
	if err := remove(task.Qualify(w, "out")); err != nil {
		t.Fatal(err)
	}
	if flow := g.workflow(w); !flow.Finished() || len(flow.Outputs) > 0 {
		t.Errorf("a workflow whose output was removed: %+v", flow)
	}
	a.sync()
	g.check()
}

// What attempts have used is told of whom, where and when, once each, also when their
// workflow has gone.
func TestAccountsOutliveWorkflows(t *testing.T) {
	g, a, w := cleared(t)
	second := g.mustSubmit(taskqueue.Submission{Name: "fails", By: taskqueue.Person{Name: "other"}, Tasks: []task.Task{job("x", nil, nil)}})
	a.sync()
	x := task.NewID(second, "x")
	failed := a.fail(a.start(x, a.members[0]), task.PayloadFailed)
	a.end(x, failed)
	a.sync()
	a.ended = append(a.ended, failed) // told again
	a.sync()
	g.must(func(t *taskqueue.Turn) error { _, err := g.rules.DeleteWorkflow(t, w, false); return err })
	a.sweep(0)
	want := map[string]taskqueue.Usage{
		"":      {Tasks: 2, CPU: 2 * time.Second, Wall: 2 * time.Second},
		"other": {Failures: 1, CPU: time.Second, Wall: time.Second, Wasted: time.Second},
	}
	g.view(func(turn *taskqueue.Turn) error {
		all, err := turn.Usage().Since("2026-01-01", taskqueue.UsageKey{}, 10)
		if len(all) != len(want) {
			t.Errorf("%d accounts: %+v", len(all), all)
		}
		for _, u := range all {
			expected := want[u.Owner]
			expected.UsageKey = taskqueue.UsageKey{Day: "2026-01-01", Owner: u.Owner, Site: "A"}
			if u.Bytes = [4]uint64{}; u != expected {
				t.Errorf("%+v, want %+v", u, expected)
			}
		}
		return err
	})
}

// commits counts commits of a store.
type commits uint64

func (c *commits) Read() (uint64, error) { return uint64(*c), nil }
func (c *commits) Write(commit uint64)   { *c = commits(commit) }

// Where nothing is due, ticks write nothing but once a minute when they last looked for
// what is too old.
func TestTicksOfAQueueAtRestWriteNothing(t *testing.T) {
	var written commits
	store, err := tables.Open(mem.NewEngine(), &written)
	if err != nil {
		t.Fatal(err)
	}
	g := gridOn(t, store)
	a := g.addSite("A")
	a.join("a", 1)
	g.mustSubmit(taskqueue.Submission{Name: "flow", Tasks: []task.Task{job("x", nil, []string{"out"})}})
	a.sync()
	before := written
	g.tick(time.Second)
	if written == before {
		t.Fatal("the first tick writes nothing")
	}
	for range 2 {
		before = written
		for range 59 {
			g.tick(time.Second)
		}
		if written != before {
			t.Errorf("ticks of 59 s have made %d commits", written-before)
		}
		g.tick(time.Second)
	}
}
