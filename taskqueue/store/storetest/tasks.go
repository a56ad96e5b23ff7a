package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func testTasks(t *testing.T, store taskqueue.Store) {
	first, firstState := made("first", 1, task.Blocked)
	second, secondState := made("second", 2, task.Ready)
	first.Env = map[string]string{"A": "b"}
	update(t, store, func(tx taskqueue.Tx) error {
		return tx.Tasks().Add([]task.Task{first, second}, []taskqueue.TaskState{firstState, secondState})
	})
	changed := firstState
	changed.State, changed.Reason, changed.Seq = task.Leased, "handed out", 99
	update(t, store, func(tx taskqueue.Tx) error {
		tasks := tx.Tasks()
		want(t, "descriptions in the order asked", []task.Task{second, first})(tasks.Describe(second.ID, "w-aaaaaaaaaa/none", first.ID))
		want(t, "states in the order asked", []taskqueue.TaskState{secondState, firstState})(tasks.Load(second.ID, "w-aaaaaaaaaa/none", first.ID))
		want(t, "asked twice", []taskqueue.TaskState{firstState, firstState})(tasks.Load(first.ID, first.ID))
		want[[]taskqueue.TaskState](t, "asked nothing", nil)(tasks.Load())
		return tasks.Save(changed)
	})
	view(t, store, func(tx taskqueue.Tx) {
		changed.Seq = firstState.Seq
		want(t, "changed state keeps its age", []taskqueue.TaskState{changed})(tx.Tasks().Load(first.ID))
		want(t, "description stays", []task.Task{first})(tx.Tasks().Describe(first.ID))
	})
}

func testTaskErrors(t *testing.T, store taskqueue.Store) {
	one, state := made("one", 1, task.Ready)
	two, twoState := made("two", 2, task.Ready)
	update(t, store, func(tx taskqueue.Tx) error {
		return tx.Tasks().Add([]task.Task{one}, []taskqueue.TaskState{state})
	})
	again := state
	again.Seq = 3
	failures := []struct {
		name  string
		write func(taskqueue.Tx) error
		is    error
	}{
		{"added again", func(tx taskqueue.Tx) error {
			return tx.Tasks().Add([]task.Task{two, one}, []taskqueue.TaskState{twoState, again})
		}, taskqueue.ErrTaskExists},
		{"saved but never added", func(tx taskqueue.Tx) error { return tx.Tasks().Save(state, twoState) }, taskqueue.ErrTaskAbsent},
		{"without state", func(tx taskqueue.Tx) error { return tx.Tasks().Add([]task.Task{two}, nil) }, nil},
		{"with the state of another", func(tx taskqueue.Tx) error {
			return tx.Tasks().Add([]task.Task{two}, []taskqueue.TaskState{again})
		}, nil},
	}
	for _, failure := range failures {
		err := store.Update(context.Background(), failure.write)
		if err == nil || failure.is != nil && !errors.Is(err, failure.is) {
			t.Errorf("task %s: error %v, want %v", failure.name, err, failure.is)
		}
	}
	view(t, store, func(tx taskqueue.Tx) {
		list(t, "only the first was added", nameOf, "one")(tx.Tasks().InWorkflow(flowA, 0, 10))
		want(t, "counted once", map[taskqueue.ClassID]int{0: 1})(tx.Tasks().ReadyClasses())
	})
}

func testDeleteWorkflow(t *testing.T, store taskqueue.Store) {
	_, a := made("a", 1, task.Ready)
	_, b := made("b", 2, task.Leased)
	_, c := made("c", 3, task.Done)
	_, other := madeIn(flowB, "a", 4, task.Ready)
	a.NotBefore, b.Lease, c.MemoKey = 7, 9, digest(1)
	ofA, ofOther := attempt(a.ID, "p-aaaaaaaa", 1, taskqueue.AttemptRunning), attempt(other.ID, "p-aaaaaaaa", 2, taskqueue.AttemptRunning)
	update(t, store, func(tx taskqueue.Tx) error {
		return first(add(tx, a, b, c, other),
			tx.Files().AddUses(a.ID, "vo:x"), tx.Files().AddUses(other.ID, "vo:x"),
			tx.Attempts().Save(ofA, ofOther),
			tx.Attempts().SaveLog(ofA.Outcome.Attempt, []byte("out"), nil),
			tx.Attempts().SaveLog(ofOther.Outcome.Attempt, []byte("out"), nil))
	})
	update(t, store, func(tx taskqueue.Tx) error { return tx.Tasks().DeleteWorkflow(flowA) })
	view(t, store, func(tx taskqueue.Tx) {
		tasks := tx.Tasks()
		list(t, "states", nameOf)(tasks.Load(a.ID, b.ID, c.ID))
		want[[]task.Task](t, "descriptions", nil)(tasks.Describe(a.ID, b.ID, c.ID))
		list(t, "the other workflow stays", nameOf, "a")(tasks.InWorkflow(flowB, 0, 10))
		list(t, "in workflow", nameOf)(tasks.InWorkflow(flowA, 0, 10))
		list(t, "ready", nameOf, "a")(tasks.ReadyIn(0, 10, 10))
		want(t, "ready classes", map[taskqueue.ClassID]int{0: 1})(tasks.ReadyClasses())
		want(t, "backoff", taskqueue.Instant(0))(tasks.NextBackoff(0))
		list(t, "leased", nameOf)(tasks.InLease(9))
		list(t, "memo", nameOf)(tasks.DoneByMemo(flowA, digest(1)))
		want(t, "readers", []task.ID{other.ID})(tx.Files().Readers("vo:x"))
		list(t, "attempts", counterOf)(tx.Attempts().OfTask(a.ID))
		list(t, "running", counterOf, uint64(2))(tx.Attempts().RunningAt("p-aaaaaaaa"))
		if out, _, err := tx.Attempts().LoadLog(ofA.Outcome.Attempt); out != nil || err != nil {
			t.Errorf("log: %q, %v; want none", out, err)
		}
		if out, _, err := tx.Attempts().LoadLog(ofOther.Outcome.Attempt); string(out) != "out" || err != nil {
			t.Errorf("other workflow's log: %q, %v", out, err)
		}
	})
	update(t, store, func(tx taskqueue.Tx) error { return add(tx, a) }) // the id is free again
}
