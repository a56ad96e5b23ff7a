package taskqueue_test

import (
	"errors"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Results are taken over by who may look into them: the newest of one's own first.
func TestResultsAreTakenOverFromOnesOwnOrShared(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 4)
	run := func(name, group string, groups ...string) taskqueue.Submitted {
		t.Helper()
		out, err := g.submit(taskqueue.Submission{
			Name: "w", By: taskqueue.Person{Name: name, Groups: groups}, Group: group, Outputs: []string{"x"},
			Tasks: []task.Task{job("t", nil, []string{"x"})},
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			a.sync()
			a.work()
			for _, name := range a.made() {
				a.upload(name)
			}
		}
		a.sync()
		g.check()
		return out
	}
	for _, c := range []struct {
		name, group string
		groups      []string
		reused      int
	}{
		{"alice", "", nil, 0}, {"alice", "", nil, 1}, {"bob", "higgs", []string{"higgs"}, 0}, {"eve", "", nil, 0},
		{"carol", "", []string{"higgs"}, 1}, {"dave", taskqueue.Everybody, nil, 0}, {"mallory", "", nil, 1},
	} {
		if out := run(c.name, c.group, c.groups...); out.Reused != c.reused {
			t.Errorf("%s took over %d results, want %d", c.name, out.Reused, c.reused)
		}
	}
}

// Workflows from before they had owners belong to the admin and are readable by all;
// a start that is interrupted begins again, and a later one changes nothing.
func TestWorkflowsFromBeforeBelongToTheAdmin(t *testing.T) {
	g := newGrid(t)
	g.rules.Config.Workflow.SweepPage = 2
	g.addSite("A")
	before := taskqueue.Person{Name: "nightly"}
	var ids []task.WorkflowID
	for _, name := range []string{"a", "b", "c"} {
		ids = append(ids, g.mustSubmit(taskqueue.Submission{Name: name, Key: name, By: before, Tasks: []task.Task{job("t", nil, nil)}}))
		g.must(func(t *taskqueue.Turn) error {
			w := g.workflow(ids[len(ids)-1])
			w.Key = name // as it was kept
			return t.Workflows().Save(w)
		})
	}
	page := func(after task.WorkflowID) (last task.WorkflowID) {
		g.must(func(t *taskqueue.Turn) (err error) {
			last, err = g.rules.GiveToAdmin(t, after)
			return err
		})
		return last
	}
	page("") // and then it was interrupted
	for last := page(""); last != ""; {
		last = page(last)
	}
	for i, id := range ids {
		w := g.workflow(id)
		if w.Owner != taskqueue.AdminPerson || !(taskqueue.Person{Name: "anybody"}).Sees(&w) || (taskqueue.Person{Name: "nightly"}).Changes(&w) {
			t.Errorf("%+v", w)
		}
		again, err := g.submit(taskqueue.Submission{Name: w.Name, Key: w.Name, By: before, Tasks: []task.Task{job("t", nil, nil)}})
		if err != nil || !again.Existed || again.Workflow != id {
			t.Errorf("submission %d sent again: %+v, %v", i, again, err)
		}
	}
	own := g.mustSubmit(taskqueue.Submission{Name: "d", By: before, Tasks: []task.Task{job("t", nil, nil)}})
	if page("") != "" || g.workflow(own).Owner != "nightly" {
		t.Error("a later start gives the work of persons to the admin")
	}
	g.check()
}

// A file that is registered for all is its first owner's: others neither add copies of
// it nor take its name while somebody reads it.
func TestSharedFilesBelongToWhoRegisteredThemFirst(t *testing.T) {
	g := newGrid(t)
	g.addSite("A")
	g.addSite("B")
	as := func(by taskqueue.Person, group string, files ...task.File) error {
		return g.update(func(turn *taskqueue.Turn) error {
			turn.By = by
			_, err := g.rules.RegisterFiles(turn, files, group)
			return err
		})
	}
	alice, bob, eve := taskqueue.Person{Name: "alice", Groups: []string{"higgs"}}, taskqueue.Person{Name: "bob", Groups: []string{"higgs"}}, taskqueue.Person{Name: "eve", Groups: []string{"*"}}
	admin := taskqueue.Person{Name: "admin", Admin: true}
	first, second := at("geometry", -1, "A"), at("geometry", -1, "A", "B")
	for i, c := range []struct {
		by      taskqueue.Person
		group   string
		file    task.File
		refused bool
	}{
		{eve, "higgs", first, true}, {eve, "*", first, true},
		{alice, "higgs", first, false}, {alice, "higgs", first, false},
		{eve, "", first, false}, // which adds nothing
		{eve, "", second, true}, {taskqueue.Person{Name: "carol"}, "", second, true},
		{bob, "", second, false},
	} {
		if err := as(c.by, c.group, c.file); errors.Is(err, taskqueue.ErrRefused) != c.refused || err != nil && !c.refused {
			t.Errorf("%d: %s registers %v: %v", i, c.by.Name, c.file.Replicas, err)
		}
	}
	if f := g.file("vo:geometry"); f.Owner != "alice" || f.Group != "higgs" || len(f.Replicas) != 2 {
		t.Errorf("%+v", f)
	}
	g.mustSubmit(taskqueue.Submission{Name: "reads", Tasks: []task.Task{job("t", []string{"vo:geometry"}, nil)}})
	g.must(func(turn *taskqueue.Turn) error { // as after its removal: who has read it may read it again
		f := g.file("vo:geometry")
		f.Replicas = nil
		return turn.Files().Save(f)
	})
	if err := as(eve, "", first); !errors.Is(err, taskqueue.ErrRefused) {
		t.Errorf("eve gives others' readers her own file: %v", err)
	}
	if err := as(bob, "", first); err != nil {
		t.Error(err)
	}
	g.must(func(turn *taskqueue.Turn) error { // as from before files had owners
		f := g.file("vo:geometry")
		f.Owner, f.Group = "", ""
		return turn.Files().Save(f)
	})
	if err := as(alice, "", second); !errors.Is(err, taskqueue.ErrRefused) {
		t.Errorf("a file of nobody's: %v", err)
	}
	if err := as(admin, "", second); err != nil {
		t.Error(err)
	}
}
