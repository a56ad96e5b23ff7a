package sqlite

import (
	"context"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// TestReadyCountsOfNothingGo: a class whose READY tasks have gone leaves no row,
// and rows that earlier releases left go when the database is opened.
func TestReadyCountsOfNothingGo(t *testing.T) {
	folder := t.TempDir()
	store, err := open(folder)
	if err != nil {
		t.Fatal(err)
	}
	id := task.NewID("w-aaaaaaaaaa", "t")
	write := func(change func(taskqueue.Tx) error) {
		t.Helper()
		if err := store.Update(context.Background(), change); err != nil {
			t.Fatal(err)
		}
	}
	rows := func() (n int64) {
		t.Helper()
		err := store.View(context.Background(), func(x taskqueue.Tx) (err error) {
			n, err = x.(*tx).integer("SELECT count(*) FROM ready_counts")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	state := taskqueue.TaskState{ID: id, Seq: 1, State: task.Ready, Class: 7}
	write(func(tx taskqueue.Tx) error {
		return tx.Tasks().Add([]task.Task{{ID: id}}, []taskqueue.TaskState{state})
	})
	if n := rows(); n != 1 {
		t.Fatalf("%d rows for one class", n)
	}
	state.State = task.Done
	write(func(tx taskqueue.Tx) error { return tx.Tasks().Save(state) })
	if n := rows(); n != 0 {
		t.Errorf("%d rows are left of a class without READY tasks", n)
	}
	write(func(x taskqueue.Tx) error { return x.(*tx).write("INSERT INTO ready_counts VALUES (8, 0)") })
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if store, err = open(folder); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if n := rows(); n != 0 {
		t.Errorf("%d rows of nothing are left after opening the database again", n)
	}
}
