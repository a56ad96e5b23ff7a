package taskqueue_test

import (
	"errors"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Where nothing is left to cancel, the results go on to the storage element.
func TestADoneWorkflowIsNotCancelled(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	id := g.mustSubmit(taskqueue.Submission{Name: "result", Tasks: []task.Task{job("one", nil, []string{"x"})}, Outputs: []string{"x"}})
	one, x := task.NewID(id, "one"), task.Qualify(id, "x")
	a.sync()
	a.work()
	a.sync()
	g.must(func(turn *taskqueue.Turn) error {
		n, err := g.rules.CancelWorkflow(turn, id)
		if n != 0 {
			t.Errorf("%d tasks cancelled of a workflow whose task is done", n)
		}
		return err
	})
	if w := g.workflow(id); w.Cancelled || w.Over() {
		t.Errorf("its result is on its way: %+v", w)
	}
	a.loseFile(x)
	a.sync()
	a.work()
	a.sync()
	g.expect(task.Done, one)
	a.upload(x)
	a.sync()
	if w := g.workflow(id); !w.Finished() {
		t.Errorf("made again, and stored: %+v", w)
	}
	g.check()
}

// The results that a workflow lost while it was cancelled are made again when
// it is taken up again, whole or by one task, and are counted once.
func TestRetryMakesLostResultsAgain(t *testing.T) {
	for _, whole := range []bool{true, false} {
		g := newGrid(t)
		a := g.addSite("A")
		a.join("peerA", 1)
		id := g.mustSubmit(taskqueue.Submission{
			Name: "result", Outputs: []string{"x", "y"},
			Tasks: []task.Task{job("one", nil, []string{"x", "y"}), job("two", nil, nil)},
		})
		one, two := task.NewID(id, "one"), task.NewID(id, "two")
		a.sync()
		a.end(one, a.succeed(a.start(one, a.members[0])))
		a.sync()
		g.must(func(turn *taskqueue.Turn) error {
			_, err := g.rules.CancelWorkflow(turn, id)
			return err
		})
		a.loseFile(task.Qualify(id, "x"))
		a.loseFile(task.Qualify(id, "y"))
		a.sync()
		g.expect(task.Done, one)
		g.expect(task.Cancelled, two)
		g.check()
		g.must(func(turn *taskqueue.Turn) (err error) {
			n := 0
			if whole {
				n, err = g.rules.RetryWorkflow(turn, id, false)
			} else {
				n, err = g.rules.RetryTask(turn, two)
			}
			if n != 2 {
				t.Errorf("whole %v: %d tasks are to run, want 2", whole, n)
			}
			return err
		})
		g.expect(task.Ready, one, two)
		g.check()
	}
}

// Cancelled once more while a lost result is being made again, its maker is
// reopened as cancelled and not counted as the maker of a lost result.
func TestRetryCountsAMakerOnce(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	id := g.mustSubmit(taskqueue.Submission{Name: "result", Tasks: []task.Task{job("one", nil, []string{"x"})}, Outputs: []string{"x"}})
	one := task.NewID(id, "one")
	a.sync()
	a.work()
	a.loseFile(task.Qualify(id, "x"))
	a.sync()
	g.must(func(turn *taskqueue.Turn) error {
		_, err := g.rules.CancelWorkflow(turn, id)
		return err
	})
	g.expect(task.Cancelled, one)
	err := g.update(func(turn *taskqueue.Turn) error {
		_, err := g.rules.RetryWorkflow(turn, id, true)
		return err
	})
	if !errors.Is(err, taskqueue.ErrConflict) {
		t.Errorf("a retry of what failed, where a user cancelled: %v", err)
	}
	g.must(func(turn *taskqueue.Turn) error {
		n, err := g.rules.RetryWorkflow(turn, id, false)
		if n != 1 {
			t.Errorf("%d tasks are to run, want 1", n)
		}
		return err
	})
	g.check()
}
