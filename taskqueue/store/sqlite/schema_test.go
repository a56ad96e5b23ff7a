package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// TestSchema1 opens a database of the first schema and finds every task as it
// was, in every way in which tasks are searched.
func TestSchema1(t *testing.T) {
	const flow = task.WorkflowID("w-aaaaaaaaaa")
	folder := t.TempDir()
	var states []taskqueue.TaskState
	for i, state := range task.States() {
		states = append(states, taskqueue.TaskState{
			ID: task.NewID(flow, fmt.Sprintf("t%d", i)), Seq: uint64(i + 1), State: state, Priority: i, Generation: 1,
			Class: 3, NotBefore: 4, Lease: 5, MemoKey: task.Digest{1}, Reason: "because",
		})
	}
	writeSchema1(t, folder, states)
	store, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	check := func(tx taskqueue.Tx) error {
		var ids []task.ID
		for _, s := range states {
			ids = append(ids, s.ID)
		}
		loaded, err := tx.Tasks().Load(ids...)
		if err != nil || !reflect.DeepEqual(loaded, states) {
			t.Errorf("loaded %+v, %v", loaded, err)
		}
		specs, err := tx.Tasks().Describe(ids...)
		if err != nil || len(specs) != len(ids) || specs[2].ID != ids[2] || specs[2].Shell != "true" {
			t.Errorf("described %+v, %v", specs, err)
		}
		all, err := tx.Tasks().InWorkflow(flow, 0, 100)
		if err != nil || !reflect.DeepEqual(all, states) {
			t.Errorf("in the workflow: %+v, %v", all, err)
		}
		for _, s := range states {
			var found []taskqueue.TaskState
			switch s.State {
			case task.Ready:
				if found, err = tx.Tasks().ReadyIn(3, 4, 10); err == nil && len(found) == 1 {
					found, _, err = tx.Tasks().ReadyOf(map[taskqueue.ClassID]int{3: 10}, 4, 10, 10)
				}
			case task.Leased:
				found, err = tx.Tasks().InLease(5)
			case task.Done:
				found, err = tx.Tasks().DoneByMemo(flow, task.Digest{1})
			default:
				continue
			}
			if err != nil || len(found) != 1 || found[0].ID != s.ID {
				t.Errorf("searched by state %s: %+v, %v", s.State, found, err)
			}
		}
		return nil
	}
	if err := store.View(context.Background(), check); err != nil {
		t.Fatal(err)
	}
	err = store.Update(context.Background(), func(tx taskqueue.Tx) error {
		for i := range states {
			states[i].Reason = "changed"
		}
		return tx.Tasks().Save(states...)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if store, err = Open(folder); err != nil { // it is of the present schema now
		t.Fatal(err)
	}
	if err := store.View(context.Background(), check); err != nil {
		t.Fatal(err)
	}
}

// writeSchema1 makes a database as the first schema had it.
func writeSchema1(t *testing.T, folder string, states []taskqueue.TaskState) {
	t.Helper()
	schema1, err := os.ReadFile(filepath.Join("testdata", "schema1.sql"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := connect(filepath.Join(folder, FileName), writerCache)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := conn.once(string(schema1)); err != nil {
		t.Fatal(err)
	}
	for i := range states {
		s := &states[i]
		_, err := conn.exec("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			int64(s.Seq), string(s.ID), string(s.ID.Workflow()), int64(s.State), int64(s.Priority),
			int64(s.Class), int64(s.NotBefore), int64(s.Lease), s.MemoKey[:], stateCodec.Encode(s))
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.exec("INSERT INTO descriptions VALUES (?, ?)", int64(s.Seq), taskCodec.Encode(&task.Task{ID: s.ID, Shell: "true"}))
		if err != nil {
			t.Fatal(err)
		}
	}
}
