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
		list(t, "newest first", flowOf, task.WorkflowID("w-0000000000"), flowB)(tx.Workflows().List("", "", 10))
		want(t, "newest of a key", task.WorkflowID("w-0000000000"))(tx.Workflows().ByKey("k"))
	})
}

// Touch calls every method of every table at least once, for tests of an
// engine that look at what the calls did to it.
func Touch(t testing.TB, store taskqueue.Store) {
	update(t, store, prepare)
	for _, name := range slices.Sorted(maps.Keys(writes)) {
		if name != "Tasks-" {
			update(t, store, writes[name])
		}
	}
	dump(t, store)
	update(t, store, writes["Tasks-"])
}
