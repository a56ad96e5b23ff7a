package world

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// What a node cannot store, while others can, is stored by another one.
func TestWhatOneNodeCannotStoreAnotherOneDoes(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 4, 2)
	pilots[0].shut = true
	w.run1 = func(task.ID, *node) time.Duration { return 10 * time.Second }
	w.finish(w.submit("flow", tree(20)...), 10*time.Minute)
}

// Where storage answers nobody, outputs stay where they were made.
func TestOutputsDoNotGoAroundWhileStorageIsAway(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 4, 2)
	first := w.submit("first", tree(10)...)
	w.finish(first, 10*time.Minute) // all have stored something
	s.down = true
	made := make([]task.Task, 0, 12)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		made = append(made, one(name, makes(name)))
	}
	flow := w.submit("flow", made...)
	if !w.runUntil(10*time.Minute, func() bool { return w.queue.workflow(flow).Counts[task.Done] == len(made) }) {
		t.Fatal("the tasks do not end")
	}
	keepers := make(map[task.OutputID]map[task.PilotID]bool)
	moves := -len(made)
	for range 20 * 6 {
		w.run(10 * time.Second)
		for _, n := range pilots {
			for _, id := range n.files.Soles() {
				if keepers[id] == nil {
					keepers[id] = make(map[task.PilotID]bool)
				}
				if !keepers[id][n.id] {
					keepers[id][n.id] = true
					moves++
				}
			}
		}
	}
	if moves > len(made) {
		t.Errorf("%d outputs were moved %d times", len(made), moves)
	}
	s.down = false
	w.finish(flow, 10*time.Minute)
}

// Whoever cannot store an output lets go of it only when the queue has heard that another
// pilot has stored it: that one may leave while the queue takes nothing.
func TestAnOutputIsKeptUntilTheQueueHearsThatAnotherPilotHasStoredIt(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 2, 2)
	w.finish(w.submit("first", tree(4)...), time.Minute) // both have stored something
	pilots[1].shut = true
	made := make([]task.Task, 0, 4)
	for _, name := range []string{"a", "b", "c", "d"} {
		made = append(made, one(name, makes(name)))
	}
	flow := w.submit("flow", made...)
	if !w.runUntil(time.Minute, func() bool { return w.queue.workflow(flow).Counts[task.Done] == len(made) }) {
		t.Fatal("the tasks do not end")
	}
	w.run(10 * time.Second)
	if unstored := w.queue.workflow(flow).Unstored; unstored == 0 {
		t.Fatal("all outputs are stored although a pilot cannot store its own")
	}
	w.queue.diskFails(true, false)
	before := len(s.stored)
	if !w.runUntil(5*time.Minute, func() bool { return len(s.stored) > before }) {
		t.Fatal("nobody stores what a pilot cannot store")
	}
	w.run(10 * time.Second)
	pilots[0].stop(5 * time.Second)
	w.run(time.Minute)
	w.queue.diskFails(false, false)
	pilots[1].shut = false
	w.finish(flow, 10*time.Minute)
}
