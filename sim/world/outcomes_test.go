package world

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// An outcome that has to wait for the outcome of a maker of its inputs does not
// stand in the way of what could go on: neither of other users' outcomes nor of
// the maker's own. It is not told again and again meanwhile.
func TestWaitingOutcomesLetOthersPass(t *testing.T) {
	w := newWorld(t, 1)
	w.logBytes = func(task.AttemptID) int { return 64 << 10 } // few fit into a Sync
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 6, 4)
	const again = 10 * time.Minute
	w.run1 = func(id task.ID, _ *node) time.Duration {
		if id.Name() == "make" && w.started[id] > 1 {
			return again
		}
		return 500 * time.Millisecond
	}
	tasks := []task.Task{one("make", makes("made"))}
	for i := range 200 {
		tasks = append(tasks, one(fmt.Sprintf("read%d", i), reads("made"), makes(fmt.Sprintf("r%d", i))))
	}
	flow := w.submit("flow", tasks...)
	maker := w.queue.tasks(flow)[0].ID
	w.runUntil(time.Minute, func() bool { return w.started[maker] == 1 })
	w.queue.stop()
	w.run(8 * time.Second) // the readers run
	// Nobody is left who knows how the maker's first attempt has ended.
	for _, n := range pilots {
		for id := range n.payloads {
			if _, term := n.member.Overlay.Master(); id.Task == maker || term.Peer == n.peer {
				n.kill()
			}
		}
	}
	w.run(5 * time.Second)
	w.queue.start()
	calls, bytes := w.queue.link.calls, w.queue.link.callBytes
	other := w.submit("other", tree(20)...)
	w.finish(other, 30*time.Second)
	w.run(3 * time.Minute)
	if calls, bytes = w.queue.link.calls-calls, w.queue.link.callBytes-bytes; calls > 400 || bytes > 80<<20 {
		t.Errorf("%d calls with %d MiB while the maker runs again", calls, bytes>>20)
	}
	if w.started[maker] != 2 || w.queue.workflow(flow).Finished() {
		t.Fatalf("the maker was begun %d times", w.started[maker])
	}
	w.finish(flow, again+time.Minute) // its outcome comes through at once, and theirs
}
