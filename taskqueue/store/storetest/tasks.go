package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

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

func testReady(t *testing.T, store taskqueue.Store) {
	names := []string{"old", "urgent", "young", "late", "blocked", "elsewhere", "urgent too"}
	states := make([]taskqueue.TaskState, len(names))
	for i, name := range names {
		_, states[i] = made(name, uint64(i+1), task.Ready)
		states[i].Class = 3
	}
	states[1].Priority, states[6].Priority, states[2].Priority = 5, 5, -5
	states[3].NotBefore = 100
	states[4].State = task.Blocked
	states[5].Class = 4
	update(t, store, func(tx taskqueue.Tx) error { return add(tx, states...) })
	view(t, store, func(tx taskqueue.Tx) {
		tasks := tx.Tasks()
		list(t, "priority, then age", nameOf, "urgent", "urgent too", "old", "young")(tasks.ReadyIn(3, 99, 10))
		list(t, "backoff is over", nameOf, "urgent", "urgent too", "old", "late", "young")(tasks.ReadyIn(3, 100, 10))
		list(t, "limit", nameOf, "urgent", "urgent too")(tasks.ReadyIn(3, 0, 2))
		list(t, "limit 0", nameOf)(tasks.ReadyIn(3, 0, 0))
		list(t, "another class", nameOf, "elsewhere")(tasks.ReadyIn(4, 0, 9))
		list(t, "an empty class", nameOf)(tasks.ReadyIn(5, 0, 9))
		list(t, "pauses", nameOf, "late")(tasks.Pausing(99, 9))
		list(t, "pauses no more", nameOf)(tasks.Pausing(100, 9))
		list(t, "limit of those that pause", nameOf)(tasks.Pausing(0, 0))
		of := func(what string, complete bool, quotas map[taskqueue.ClassID]int, limit, rows int, names ...string) {
			t.Helper()
			found, all, err := tasks.ReadyOf(quotas, 99, limit, rows)
			list(t, what, nameOf, names...)(found, err)
			if all != complete {
				t.Errorf("%s: complete is %v", what, all)
			}
		}
		of("two classes", true, map[taskqueue.ClassID]int{3: 9, 4: 9}, 9, 9, "urgent", "urgent too", "old", "elsewhere", "young")
		of("quotas", true, map[taskqueue.ClassID]int{3: 3, 4: 1, 5: 1}, 9, 9, "urgent", "urgent too", "old", "elsewhere")
		of("limit of all", true, map[taskqueue.ClassID]int{3: 9, 4: 9}, 3, 3, "urgent", "urgent too", "old")
		of("few rows", false, map[taskqueue.ClassID]int{4: 1}, 9, 1)
		of("no quota", true, map[taskqueue.ClassID]int{3: 0}, 9, 9)
		of("no limit", true, map[taskqueue.ClassID]int{3: 1}, 0, 9)
		want(t, "classes", map[taskqueue.ClassID]int{3: 5, 4: 1})(tasks.ReadyClasses())
		want(t, "before the first", 0)(tasks.ReadyBefore(3, 5, 2))
		want(t, "same priority and older", 1)(tasks.ReadyBefore(3, 5, 7))
		want(t, "higher priority", 2)(tasks.ReadyBefore(3, 0, 1))
		want(t, "those in backoff count", 4)(tasks.ReadyBefore(3, -5, 3))
		want(t, "before one that is not there", 5)(tasks.ReadyBefore(3, -9, 1))
		want(t, "in an empty class", 0)(tasks.ReadyBefore(2, 0, 1))
	})
	update(t, store, func(tx taskqueue.Tx) error {
		states[0].State = task.Leased
		states[1].Class = 4
		states[4].State = task.Ready
		states[6].Priority = -9
		return tx.Tasks().Save(states[0], states[1], states[4], states[6])
	})
	view(t, store, func(tx taskqueue.Tx) {
		list(t, "after changes", nameOf, "late", "blocked", "young", "urgent too")(tx.Tasks().ReadyIn(3, 100, 10))
		list(t, "after the move", nameOf, "urgent", "elsewhere")(tx.Tasks().ReadyIn(4, 0, 10))
		want(t, "classes after changes", map[taskqueue.ClassID]int{3: 4, 4: 2})(tx.Tasks().ReadyClasses())
	})
}
