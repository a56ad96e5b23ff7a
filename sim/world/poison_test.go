package world

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// A task that kills whatever pilot runs it is put aside after a few pilots, in every
// mode, although its site starts new pilots all the time.
func TestATaskThatKillsItsPilotsIsPutAside(t *testing.T) {
	for _, mode := range []taskqueue.Mode{taskqueue.ModeDistributed, taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
		w := newWorld(t, 1)
		s := w.addSite("siteA", inMode(mode))
		w.start(s, 3, 1)
		w.run1 = func(_ task.ID, n *node) time.Duration {
			n.after(time.Second, n.kill)
			return time.Hour
		}
		flow := w.submit("flow", one("t"))
		for range 30 {
			for len(s.live()) < 3 {
				w.startOne(s, 1, nil)
			}
			w.run(20 * time.Second)
		}
		if killed := w.started[task.NewID(flow, "t")]; w.queue.workflow(flow).Counts[task.Quarantined] != 1 || killed > 4 {
			t.Errorf("%s: %v after %d pilots", mode, w.queue.workflow(flow).Counts, killed)
		}
	}
}

// Two such tasks take five pilots each at most, and of the tasks beside them none is put
// aside, although it dies with them.
func TestTasksBesideOneThatKillsItsPilotsAreNotPutAside(t *testing.T) {
	for _, mode := range []taskqueue.Mode{taskqueue.ModeDistributed, taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
		for seed := range uint64(2) {
			w := newWorld(t, seed)
			s := w.addSite("siteA", inMode(mode))
			w.start(s, 3, 2)
			poison := make(map[task.ID]bool)
			w.run1 = func(id task.ID, n *node) time.Duration {
				if !poison[id] {
					return 10 * time.Second
				}
				n.after(time.Second, func() {
					if n.alive {
						n.kill()
					}
				})
				return time.Hour
			}
			bad := w.submit("bad", one("a"), one("b"))
			poison[task.NewID(bad, "a")], poison[task.NewID(bad, "b")] = true, true
			good := w.submit("good", tree(8)...)
			for range 100 {
				if w.queue.workflow(bad).Over() && w.queue.workflow(good).Over() {
					break
				}
				for len(s.live()) < 3 {
					w.startOne(s, 2, nil)
				}
				w.run(20 * time.Second)
			}
			for id := range poison {
				if w.started[id] > 5 {
					t.Errorf("%s, seed %d: %s has killed %d pilots", mode, seed, id, w.started[id])
				}
			}
			if counts := w.queue.workflow(bad).Counts; counts[task.Quarantined] != 2 {
				t.Errorf("%s, seed %d: those that kill their pilots: %v", mode, seed, counts)
			}
			if counts := w.queue.workflow(good).Counts; counts[task.Done] != 16 {
				t.Errorf("%s, seed %d: the others: %v", mode, seed, counts)
			}
		}
	}
}
