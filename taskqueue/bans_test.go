package taskqueue_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// A ban and what follows from it are one thing: a queue that is killed after any of its
// turns goes on where it was, and nobody's work begins again.
func TestABanIsCarriedOutOverAKill(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 2)
	submit := func(name, owner string, tasks int) task.WorkflowID {
		s := taskqueue.Submission{Name: name, By: taskqueue.Person{Name: owner, Groups: []string{"higgs"}}, Group: "higgs"}
		for i := range tasks {
			s.Tasks = append(s.Tasks, job(fmt.Sprint("t", i), nil, nil))
		}
		return g.mustSubmit(s)
	}
	var mallorys []task.WorkflowID
	for i := range 5 {
		mallorys = append(mallorys, submit(fmt.Sprint("w", i), "mallory", 3))
	}
	others := submit("w", "alice", 1)
	a.sync()
	ban := taskqueue.Ban{Kind: taskqueue.BanPerson, Name: "mallory"}
	open := func() (n int) {
		for _, id := range mallorys {
			if w := g.workflow(id); !w.Cancelled {
				n++
			}
		}
		return n
	}
	smallPages(g)
	g.must(func(t *taskqueue.Turn) error {
		out, err := g.rules.Ban(t, ban)
		if out.Tasks != 3 || !out.More {
			g.t.Errorf("the ban: %+v", out)
		}
		return err
	})
	if open() == 0 {
		t.Fatal("all is cancelled with the ban: nothing is left that a kill could stop")
	}
	for range 20 {
		smallPages(g) // new rules: who was killed remembers nothing
		g.must(func(t *taskqueue.Turn) error {
			due, err := g.rules.Deadline(t, false)
			if (open() > 0) && due > t.Clock {
				g.t.Errorf("%d workflows go on until a tick at %d, now is %d", open(), due, t.Clock)
			}
			return err
		})
		g.must(g.rules.Tick)
	}
	if n := open(); n > 0 {
		t.Errorf("%d workflows of a banned person go on", n)
	}
	if w := g.workflow(others); w.Cancelled {
		t.Error("another's workflow is cancelled")
	}
	retry := func() error {
		return g.update(func(t *taskqueue.Turn) error {
			_, err := g.rules.RetryWorkflow(t, mallorys[0], false)
			return err
		})
	}
	if err := retry(); !errors.Is(err, taskqueue.ErrRefused) {
		t.Errorf("a member of the group runs a banned person's work again: %v", err)
	}
	_, err := g.submit(taskqueue.Submission{Name: "late", By: taskqueue.Person{Name: "mallory"}, Tasks: []task.Task{job("t", nil, nil)}})
	if !errors.Is(err, taskqueue.ErrRefused) {
		t.Errorf("a call that was let in before the ban submits: %v", err)
	}
	g.must(func(t *taskqueue.Turn) error { return g.rules.Unban(t, ban) })
	if err := retry(); err != nil {
		t.Errorf("after the ban: %v", err)
	}
	g.check()
}
