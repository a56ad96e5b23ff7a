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
