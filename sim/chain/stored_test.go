package chain_test

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
		w.logBytes = task.LogTail
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
