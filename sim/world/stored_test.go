package world

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// A site is cut off from the queue for longer than its leases last while its
// storage element is at hand. Back again, it has more outcomes to tell than one
// Sync carries, so that most copies are reported before the outcomes that they
// belong to: none of them is taken for garbage.
func TestCopiesReportedBeforeTheirOutcomesAreKept(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(t, seed+1)
		w.logBytes = func(task.AttemptID) int { return task.LogTail }
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 4, 10)
		w.run1 = func(task.ID, *node) time.Duration { return time.Minute }
		var tasks []task.Task
		for i := range 40 {
			tasks = append(tasks, one(fmt.Sprintf("t%d", i), makes(fmt.Sprintf("o%d", i))))
		}
		flow := w.submit("flow", tasks...)
		if !w.runUntil(time.Minute, func() bool { return len(w.started) == 40 }) {
			t.Fatalf("only %d payloads started", len(w.started))
		}
		w.run(5 * time.Second)
		for _, n := range pilots {
			n.cutOff(true)
		}
		w.run(12 * time.Minute)
		for _, n := range pilots {
			n.cutOff(false)
		}
		w.finish(flow, 30*time.Minute)
		if len(s.deleted) > 0 {
			t.Errorf("%d copies were deleted", len(s.deleted))
		}
		if runs := len(w.ended); runs != 40 {
			t.Errorf("%d tasks ran", runs)
		}
	}
}

// While the queue is away two pilots run the same task, of which one was taken
// for dead, and both store what it makes: the queue is told of both copies, keeps
// the winner's and deletes the other.
func TestBothCopiesOfTwoAttemptsAreTold(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 3, 2)
		w.run1 = func(task.ID, *node) time.Duration { return 30 * time.Second }
		flow := w.submit("flow", one("t", makes("o")))
		first := w.isolateRunning(pilots)
		w.run(15 * time.Second)
		w.queue.stop()
		w.run(50 * time.Second)
		w.part(nil)
		w.run(20 * time.Second)
		if len(s.stored) != 2 {
			t.Fatalf("%d copies are stored", len(s.stored))
		}
		w.queue.start()
		first.cutOff(false)
		w.finish(flow, 10*time.Minute)
		w.run(5 * time.Minute)
		if len(s.stored) != 1 || len(s.deleted) != 1 {
			t.Errorf("%d copies are left, %d were deleted", len(s.stored), len(s.deleted))
		}
		for _, n := range pilots {
			if !n.worker.Idle() {
				t.Errorf("%s waits for something", n.id)
			}
		}
	}
}

// A pilot is killed after it has stored what it made and before anybody heard of
// it: once its task is done elsewhere that copy is deleted.
func TestCopiesOfKilledAttemptsAreDeleted(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 3, 2)
		w.run1 = func(task.ID, *node) time.Duration { return 30 * time.Second }
		flow := w.submit("flow", one("t", makes("o")))
		first := w.isolateRunning(pilots)
		if !w.runUntil(time.Minute, func() bool { return len(s.stored) > 0 }) {
			t.Fatal("nothing is stored")
		}
		first.kill()
		w.part(nil)
		w.finish(flow, 20*time.Minute)
		w.run(5 * time.Minute)
		w.check()
		if len(s.stored) != 1 {
			t.Errorf("seed %d: %d copies are left, %d were deleted", seed, len(s.stored), len(s.deleted))
		}
	}
}

// isolateRunning cuts the pilot that got a payload off from its site and the queue,
// five seconds after that began.
func (w *world) isolateRunning(pilots []*node) (found *node) {
	w.runUntil(time.Minute, func() bool {
		for _, n := range pilots {
			if len(n.payloads) > 0 {
				found = n
			}
		}
		return found != nil
	})
	w.run(5 * time.Second)
	w.part([]*node{found})
	found.cutOff(true)
	return found
}
