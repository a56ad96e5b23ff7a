package chain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// blackHole has every payload at a node fail at once, while holds says so, and
// counts them.
func (w *world) blackHole(host string, holds func() bool) *int {
	burnt := new(int)
	fails, run := w.fails, w.run1
	w.fails = func(id task.ID, n *node) bool {
		if n.host == host && holds() {
			*burnt++
			return true
		}
		return fails(id, n)
	}
	w.run1 = func(id task.ID, n *node) time.Duration {
		if n.host == host && holds() {
			return 5 * time.Millisecond
		}
		return run(id, n)
	}
	return burnt
}

func always() bool { return true }

// many are tasks without files.
func many(count int) (tasks []task.Task) {
	for i := range count {
		tasks = append(tasks, one(fmt.Sprintf("t%d", i)))
	}
	return tasks
}

// on starts a pilot at a node.
func (w *world) on(s *site, host string, slots int) *node {
	return w.startOne(s, slots, func(r *taskqueue.Registration) { r.Host = host })
}

// A task that fails at a node is run at another one next: one node at which
// everything fails has no task fail for good.
func TestARetryGoesToAnotherNode(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 10, 4)
		w.blackHole(pilots[seed].host, always)
		flow := w.submit("flow", many(300+int(seed)*30)...)
		w.finish(flow, time.Hour)
		for _, state := range w.queue.tasks(flow) {
			at := make(map[task.PilotID]bool)
			for _, a := range w.queue.attempts(state.ID) {
				id := a.Outcome.Attempt.Pilot
				if at[id] {
					t.Errorf("seed %d: %s came to pilot %s twice", seed+1, state.ID, id)
				}
				at[id] = true
			}
		}
	}
}

// A node whose pilots die with what they run takes no healthy task down with it,
// however many pilots the site's factory starts there.
func TestPilotsOfOneNodeQuarantineNoTask(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		w.start(s, 2, 1)
		w.run1 = func(_ task.ID, n *node) time.Duration {
			if n.host == "bad" {
				n.after(100*time.Millisecond, func() {
					if n.alive {
						n.kill()
					}
				})
			}
			return 30 * time.Second
		}
		flow := w.submit("flow", many(30)...)
		for range 40 {
			if n := s.live(); len(n) < 5 {
				w.on(s, "bad", 1)
			}
			w.run(7 * time.Second)
		}
		w.finish(flow, time.Hour)
	}
}

// At a site of one node a task has its retries there, no more and no fewer.
func TestASiteOfOneNodeRetriesThere(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	for range 3 {
		w.on(s, "only", 2)
	}
	w.run(time.Second)
	w.fails = func(id task.ID, n *node) bool { return id.Name() == "t0" || id.Name() == "t1" && w.started[id] <= 3 }
	flow := w.submit("flow", many(20)...)
	w.runUntil(10*time.Minute, func() bool { return w.queue.workflow(flow).Over() })
	if counts := w.queue.workflow(flow).Counts; counts[task.Failed] != 1 || counts[task.Done] != 19 {
		t.Errorf("%v, want one FAILED and 19 DONE", counts)
	}
	if n := w.started[task.NewID(flow, "t0")]; n != 4 {
		t.Errorf("the bad task was started %d times, want 4", n)
	}
}
