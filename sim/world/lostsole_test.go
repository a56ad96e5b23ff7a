package world

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// The copy that a pilot is to store is lost, and is there again, as a file that it reads,
// before the pilot tries: it is stored all the same.
func TestAnOutputThatWasLostAndReadAgainIsStored(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 2, 1)
		s.down = true
		flow := w.submit("flow", one("maker", makes("m")))
		if !w.runUntil(time.Minute, func() bool { return w.queue.workflow(flow).Counts[task.Done] == 1 }) {
			t.Fatal("the maker does not end")
		}
		maker, other := pilots[0], pilots[1]
		if len(other.files.Soles()) > 0 {
			maker, other = other, maker
		}
		file := w.queue.files()[0].File
		copies := func(n *node) {
			over := false
			n.files.CopyIn(file, func(done worker.CopiedIn) {
				if over = true; !done.Copied {
					t.Fatalf("%s has no copy: %s", n.id, done.Failure)
				}
			})
			w.runUntil(time.Minute, func() bool { return over })
			w.run(100 * time.Millisecond) // others hear of it
		}
		copies(other)
		maker.drop(file.Digest)
		copies(maker)
		s.down = false
		w.finish(flow, 30*time.Minute)
	}
}
