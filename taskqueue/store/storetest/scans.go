package storetest

import (
	"math"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func testInWorkflow(t *testing.T, store taskqueue.Store) {
	_, a := made("a", 40, task.Done)
	_, b := made("b", 10, task.Ready)
	_, c := made("c", 30, task.Blocked)
	_, d := made("d", 20, task.Ready)
	_, other := madeIn(flowB, "b", 15, task.Ready)
	update(t, store, func(tx taskqueue.Tx) error { return add(tx, a, b, c, d, other) })
	update(t, store, func(tx taskqueue.Tx) error {
		b.State = task.Failed
		return tx.Tasks().Save(b)
	})
	view(t, store, func(tx taskqueue.Tx) {
		tasks := tx.Tasks()
		list(t, "by age", nameOf, "b", "d", "c", "a")(tasks.InWorkflow(flowA, 0, 10))
		list(t, "limit", nameOf, "b", "d")(tasks.InWorkflow(flowA, 0, 2))
		list(t, "next page", nameOf, "c", "a")(tasks.InWorkflow(flowA, 20, 2))
		list(t, "after the last", nameOf)(tasks.InWorkflow(flowA, 40, 2))
		list(t, "after everything", nameOf)(tasks.InWorkflow(flowA, math.MaxUint64, 2))
		list(t, "limit 0", nameOf)(tasks.InWorkflow(flowA, 0, 0))
		list(t, "one state", nameOf, "d")(tasks.InWorkflow(flowA, 0, 10, task.Ready))
		list(t, "some states", nameOf, "b", "a")(tasks.InWorkflow(flowA, 0, 10, task.Done, task.Failed, task.Done))
		list(t, "some states, limit", nameOf, "d", "c")(tasks.InWorkflow(flowA, 10, 2, task.Done, task.Blocked, task.Ready))
		list(t, "unknown workflow", nameOf)(tasks.InWorkflow("w-cccccccccc", 0, 10))
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

func testBackoff(t *testing.T, store taskqueue.Store) {
	_, a := made("a", 1, task.Ready)
	_, b := made("b", 2, task.Ready)
	_, c := made("c", 3, task.Blocked)
	_, d := made("d", 4, task.Ready)
	a.NotBefore, b.NotBefore, c.NotBefore, d.NotBefore = 50, 30, 10, 30
	view(t, store, func(tx taskqueue.Tx) { want(t, "nothing there", taskqueue.Instant(0))(tx.Tasks().NextBackoff(0)) })
	update(t, store, func(tx taskqueue.Tx) error { return add(tx, a, b, c, d) })
	view(t, store, func(tx taskqueue.Tx) {
		want(t, "earliest", taskqueue.Instant(30))(tx.Tasks().NextBackoff(0))
		want(t, "only after now", taskqueue.Instant(50))(tx.Tasks().NextBackoff(30))
		want(t, "none after now", taskqueue.Instant(0))(tx.Tasks().NextBackoff(50))
	})
}

func testInLease(t *testing.T, store taskqueue.Store) {
	_, a := made("a", 3, task.Leased)
	_, b := made("b", 2, task.Leased)
	_, c := made("c", 1, task.Done)
	_, d := made("d", 4, task.Leased)
	a.Lease, b.Lease, c.Lease, d.Lease = 7, 7, 7, 8
	update(t, store, func(tx taskqueue.Tx) error { return add(tx, a, b, c, d) })
	view(t, store, func(tx taskqueue.Tx) {
		list(t, "by age", nameOf, "b", "a")(tx.Tasks().InLease(7))
		list(t, "another", nameOf, "d")(tx.Tasks().InLease(8))
		list(t, "unknown", nameOf)(tx.Tasks().InLease(9))
	})
	update(t, store, func(tx taskqueue.Tx) error {
		a.Lease, b.State = 8, task.Ready
		return tx.Tasks().Save(a, b)
	})
	view(t, store, func(tx taskqueue.Tx) {
		list(t, "emptied", nameOf)(tx.Tasks().InLease(7))
		list(t, "moved", nameOf, "a", "d")(tx.Tasks().InLease(8))
	})
}

func testDoneByMemo(t *testing.T, store taskqueue.Store) {
	_, a := made("a", 3, task.Done)
	_, b := made("b", 2, task.Done)
	_, c := made("c", 1, task.Failed)
	_, d := made("d", 4, task.Done)
	_, none := made("none", 5, task.Done)
	_, other := madeIn(flowB, "other", 6, task.Done)
	a.MemoKey, b.MemoKey, c.MemoKey, d.MemoKey, other.MemoKey = digest(1), digest(1), digest(1), digest(2), digest(1)
	update(t, store, func(tx taskqueue.Tx) error { return add(tx, a, b, c, d, none, other) })
	view(t, store, func(tx taskqueue.Tx) {
		tasks := tx.Tasks()
		list(t, "by age", nameOf, "b", "a")(tasks.DoneByMemo(flowA, digest(1)))
		list(t, "in the order of the keys", nameOf, "d", "b", "a")(tasks.DoneByMemo(flowA, digest(2), digest(9), digest(1)))
		list(t, "zero key", nameOf)(tasks.DoneByMemo(flowA, task.Digest{}))
		list(t, "other workflow", nameOf, "other")(tasks.DoneByMemo(flowB, digest(1), digest(2)))
	})
}
