package storetest

import (
	"maps"
	"slices"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// testReopen closes and opens a store and finds everything, numbers of
// counters and orders of first Save included.
func testReopen(t *testing.T, open Open, reopen Reopen) {
	store := open(t)
	update(t, store, prepare)
	for _, name := range []string{"Meta.Set", "Meta.Next", "Workflows", "Tasks.Add", "Files", "AddUses", "SaveClass", "AddGarbage", "Attempts", "SaveLog", "Leases", "Revoke", "Sites", "Pilots", "Grants"} {
		update(t, store, writes[name])
	}
	before := dump(t, store)
	store = reopen(t, store)
	defer func() { store.Close() }()
	if after := dump(t, store); after != before {
		t.Fatalf("after opening again:\n got %s\nwant %s", after, before)
	}
	update(t, store, func(tx taskqueue.Tx) error {
		want(t, "next number", uint64(2))(tx.Meta().Next("n", 1))
		return tx.Workflows().Save(taskqueue.Workflow{ID: "w-0000000000", Key: "k"})
	})
	store = reopen(t, store)
	view(t, store, func(tx taskqueue.Tx) {
		list(t, "newest first", flowOf, task.WorkflowID("w-0000000000"), flowB)(tx.Workflows().List("", "", "", 10))
		want(t, "newest of a key", task.WorkflowID("w-0000000000"))(tx.Workflows().ByKey("k"))
	})
}

// Fill writes something to every table, and some tasks that lie together; it always
// writes the same.
func Fill(t testing.TB, store taskqueue.Store) {
	update(t, store, prepare)
	for _, name := range slices.Sorted(maps.Keys(writes)) {
		if name != "Tasks-" && name != "Workflows-" && name != "Usage" { // the release before had no such table
			update(t, store, writes[name])
		}
	}
	update(t, store, func(tx taskqueue.Tx) error { return tx.Files().Save(file("vo:copied", nil, foreignCopy)) })
	var states []taskqueue.TaskState
	for i := range crowdSize {
		_, state := madeIn(flowB, crowdTask(flowB, i).Name(), uint64(200+i), task.Ready)
		state.Class, state.NotBefore, state.MemoKey = taskqueue.ClassID(i/30), taskqueue.Instant(i/35*5), digest(byte(i%3))
		states = append(states, state)
	}
	update(t, store, func(tx taskqueue.Tx) error { return add(tx, states...) })
	for i := range states[5:12] {
		states[5+i].State, states[5+i].Lease, states[5+i].Reason = task.Leased, 9, "because"
	}
	states[20].State = task.Done
	update(t, store, func(tx taskqueue.Tx) error { return tx.Tasks().Save(states...) })
}

// Dump reads everything that Fill has written, in every way, as text.
func Dump(t testing.TB, store taskqueue.Store) string { return dump(t, store) + crowdDump(t, store) }
