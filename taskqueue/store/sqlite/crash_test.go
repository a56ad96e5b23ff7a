package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// part is a part of a workflow of 100 tasks in each.
func part(number int, more bool) taskqueue.Submission {
	s := taskqueue.Submission{Name: "w", Key: "k", Part: number, More: more}
	for i := range 100 {
		described := task.Task{ID: task.ID(fmt.Sprintf("t%d-%d", number, i)), Shell: "true", Resources: task.Resources{Cores: 1, Memory: task.MiB}, Walltime: time.Hour}
		if i%2 == 0 {
			described.Outputs = []task.Output{{LFN: task.LFN(fmt.Sprintf("f%d-%d", number, i)), Name: "f"}}
		} else {
			described.Inputs = []task.Input{{LFN: task.LFN(fmt.Sprintf("f%d-%d", number, i-1)), Name: "f"}}
		}
		if i%3 == 0 {
			described.Inputs, described.Outputs = nil, nil
		}
		s.Tasks = append(s.Tasks, described)
	}
	s.AllowMissing = true
	return s
}

func submit(t *testing.T, store taskqueue.Store, s taskqueue.Submission) (out taskqueue.Submitted) {
	t.Helper()
	rules := taskqueue.NewRules(taskqueue.DefaultConfig())
	err := store.Update(context.Background(), func(tx taskqueue.Tx) (err error) {
		out, err = rules.Submit(&taskqueue.Turn{Tx: tx, Clock: 1, Wall: time.Unix(1, 0), Random: rand.New(rand.NewPCG(1, 2))}, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// afterCrash is the store as a crash at this moment leaves it: the files as
// they are, with a log that was not written back.
func afterCrash(t *testing.T, folder string) (taskqueue.Store, string) {
	t.Helper()
	left := t.TempDir()
	for _, name := range []string{sqlite.FileName, sqlite.FileName + "-wal"} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(left, name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return openIn(t, left), left
}

// TestCrashBetweenParts crashes after each part of a submission. What was
// acknowledged is there, nothing of it is READY before the last part, and the
// client goes on where it was, sending the last part that it is not sure of
// again.
func TestCrashBetweenParts(t *testing.T) {
	folder := t.TempDir()
	store := openIn(t, folder)
	const last = 2
	for number := range last + 1 {
		done := submit(t, store, part(number, number < last))
		if done.Existed || done.Tasks != 100*(number+1) {
			t.Fatalf("part %d: %+v", number, done)
		}
		crashed := store
		defer crashed.Close()
		store, folder = afterCrash(t, folder)
		if again := submit(t, store, part(number, number < last)); !again.Existed || again.Tasks != done.Tasks || again.Workflow != done.Workflow {
			t.Fatalf("part %d again: %+v, want %+v", number, again, done)
		}
		err := store.View(context.Background(), func(tx taskqueue.Tx) error {
			states, err := tx.Tasks().InWorkflow(done.Workflow, 0, 1000)
			ready := 0
			for _, s := range states {
				if s.State == task.Ready {
					ready++
				}
			}
			if len(states) != done.Tasks || (ready > 0) != (number == last) {
				t.Errorf("after part %d: %d tasks, %d of them READY", number, len(states), ready)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
