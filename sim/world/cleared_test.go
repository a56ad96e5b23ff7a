package world

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Caches drop what was deleted, also what only they had and were to keep, and nothing
// else; a master that dies on the way leaves it to the next one.
func TestCachesDropWhatWasDeleted(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", withoutStorage)
	pilots := w.start(s, 4, 2)
	gone, kept := w.submit("gone", makers(20)...), w.submit("kept", makers(12)...)
	over := func() bool { return w.queue.workflow(gone).Over() && w.queue.workflow(kept).Over() }
	if !w.runUntil(5*time.Minute, over) {
		t.Fatal("they are not over")
	}
	held := func() (gones, keeps int) {
		for _, n := range pilots {
			for _, id := range n.files.Soles() {
				if n.alive && id.Attempt.Task.Workflow() == gone {
					gones++
				} else if n.alive {
					keeps++
				}
			}
		}
		return gones, keeps
	}
	w.queue.must(func(t *taskqueue.Turn) error {
		_, err := w.queue.Rules.DeleteWorkflow(t, gone, false)
		return err
	})
	w.run(11 * time.Minute)
	before, _ := held()
	if before == 0 {
		t.Fatal("they are dropped although attempts may still be told of")
	}
	w.runUntil(5*time.Minute, func() bool { n, _ := held(); return n < before })
	for _, n := range pilots {
		if n.office.Own() {
			n.kill()
		}
	}
	_, keeps := held()
	w.runUntil(5*time.Minute, func() bool { n, _ := held(); return n == 0 && len(w.queue.files()) <= 12 })
	if gones, still := held(); gones > 0 || still < keeps || len(w.queue.files()) > 12 {
		t.Errorf("%d copies of the deleted workflow are left, %d of %d of the other; %d files in the catalogue", gones, still, keeps, len(w.queue.files()))
	}
	w.check()
}
