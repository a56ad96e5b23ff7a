package server

import (
	"context"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// TestALineForTheStoreHoldsUpNobodyElse lets a pilot's calls fill its share of the store.
// What the queue reads meanwhile under the lock by which it matches for all, on behalf of
// that pilot, needs no place in the share; and a call whose effects wait for that lock has
// given its place back. Else one pilot's calls would stop every change of the queue.
func TestALineForTheStoreHoldsUpNobodyElse(t *testing.T) {
	config := taskqueue.DefaultConfig()
	var ts *turns
	inside := func() int { return ts.shares.of["greedy"].inside }
	ts = &turns{
		store: mem.New(), rules: taskqueue.NewRules(config), commits: newCommitTimes(), failed: func(error) {},
		follow: func(*taskqueue.Effects) {
			if n := inside(); n != 0 {
				t.Errorf("%d calls are in the store while effects are carried out, want none", n)
			}
		},
	}
	limited, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ctx := context.WithValue(limited, callerKey{}, caller{kind: member, peer: "greedy"})
	if err := ts.update(ctx, func(t *taskqueue.Turn) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for range mostAtOnce {
		if _, err := ts.enter(ctx); err != nil {
			t.Fatal(err)
		}
	}
	s := &Server{turns: ts}
	masters := s.newMasters()
	matching, pull := masters.matching, &task.Pull{Sync: task.Sync{Site: "siteA", Pilot: "p-1"}}
	matching.Hear(masters.desk.Pull(ts.now(), pull, nil, func() {}), pull)
	matching.Changed(&taskqueue.Effects{WakeAll: true})
	if err := matching.CallIn(ctx); err != nil {
		t.Errorf("tasks are not read for the matchmaker: %v", err)
	}
	if n := inside(); n != mostAtOnce {
		t.Errorf("%d calls of the pilot are in the store, want %d", n, mostAtOnce)
	}
}
