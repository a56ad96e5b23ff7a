package chain_test

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot"
	"github.com/pilotage-grid/pilotage/task"
)

// A copy on the storage element is lost or has other bytes when no cache has the
// file any more: its reader has the maker run again, at no cost for its own
// retries.
func TestDamagedCopiesAreMadeAgain(t *testing.T) {
	for name, damage := range map[string]func(s *site, url string){
		"deleted": func(s *site, url string) { delete(s.stored, url) },
		"damaged": func(s *site, url string) { s.stored[url] = task.Produced{URL: url, Digest: digestOf("an HTML page")} },
	} {
		for seed := range uint64(3) {
			w := newWorld(t, seed+1)
			s := w.addSite("siteA", nil)
			pilots := w.start(s, 3, 2)
			w.run1 = func(id task.ID, _ *node) time.Duration {
				if id.Name() == "slow" {
					return 5 * time.Minute
				}
				return 10 * time.Second
			}
			flow := w.submit("flow", one("maker", makes("m")), one("slow", makes("s")), one("reader", reads("m", "s"), makes("o")))
			if !w.runUntil(10*time.Minute, func() bool { return len(s.stored) == 1 }) {
				t.Fatal("the maker does not end")
			}
			w.run(time.Minute)
			for url, copied := range s.stored {
				damage(s, url)
				for _, n := range pilots {
					n.drop(copied.Digest)
				}
			}
			w.finish(flow, time.Hour)
			for _, state := range w.queue.tasks(flow) {
				want := map[string]uint32{"maker": 2, "slow": 1, "reader": 1}[state.ID.Name()]
				if state.Generation != want || state.Failures+state.StorageFaults+state.PilotFaults != 0 {
					t.Errorf("%s, seed %d: %+v", name, seed, state)
				}
			}
		}
	}
}

// A final output that is found damaged after the end of its workflow is stored
// again from a cache that has it, else made again.
func TestDamagedFinalOutputsAreStoredAgain(t *testing.T) {
	for _, cached := range []bool{true, false} {
		w := newWorld(t, 1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 3, 2)
		flow := w.submit("flow", one("maker", makes("o")))
		w.finish(flow, time.Hour)
		w.run(time.Minute)
		var url string
		var good task.Produced
		for url, good = range s.stored {
			s.stored[url] = task.Produced{URL: url, Digest: digestOf("other bytes")}
		}
		if !cached {
			for _, n := range pilots {
				n.drop(good.Digest)
			}
		}
		pilots[1].stepWorker(pilot.BadCopy{Copy: task.LostFile{LFN: good.LFN, Digest: good.Digest, URL: url, Reason: "it is damaged"}})
		if !w.runUntil(time.Minute, func() bool { return !w.queue.workflow(flow).Finished() }) {
			t.Fatal("the queue goes on naming the damaged copy")
		}
		w.finish(flow, time.Hour)
		want := uint32(1)
		if !cached {
			want = 2
		}
		if state := w.queue.tasks(flow)[0]; state.Generation != want {
			t.Errorf("cached %v: %+v", cached, state)
		}
	}
}
