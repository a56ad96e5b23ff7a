package server

import (
	"context"
	"slices"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// watchedStore tells when it is read.
type watchedStore struct {
	taskqueue.Store
	reads func()
}

func (w watchedStore) View(ctx context.Context, read func(taskqueue.Tx) error) error {
	w.reads()
	return w.Store.View(ctx, read)
}

// The steps of a workflow are summed up for all that look at it: whoever asks first has
// the others wait for the store, and not for a place in that one's share of it.
func TestStepsAreSummedUpInNobodysShare(t *testing.T) {
	var ts *turns
	var inside []int // calls of the viewer in the store, at each read
	store := mem.New()
	ts = &turns{rules: taskqueue.NewRules(taskqueue.DefaultConfig()), failed: func(error) {}, commits: newCommitTimes(), follow: func(*taskqueue.Effects) {}}
	ts.store = watchedStore{store, func() { inside = append(inside, ts.shares.of["viewer"].inside) }}
	const id = task.WorkflowID("w-aaaaaaaaaa")
	if err := store.Update(t.Context(), func(tx taskqueue.Tx) error {
		return tx.Workflows().Save(taskqueue.Workflow{ID: id, Name: "w", Owner: "alice"})
	}); err != nil {
		t.Fatal(err)
	}
	s := &Server{turns: ts}
	s.shown.steps = newStepSums()
	limited, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	viewer := caller{token: "viewer", person: taskqueue.Person{Admin: true}}
	ctx := context.WithValue(limited, callerKey{}, viewer)
	if _, err := (&taskHandlers{server: s}).GetWorkflowSteps(ctx, &pb.GetWorkflowStepsRequest{Workflow: string(id)}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(inside, []int{1, 0}) {
		t.Errorf("calls in the viewer's share at each read: %v, want 1 to look up the workflow and 0 to sum it up", inside)
	}
}
