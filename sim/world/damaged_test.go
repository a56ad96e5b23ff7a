package world

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
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
			var bad []string
			for url, copied := range s.stored {
				bad = append(bad, url)
				damage(s, url)
				for _, n := range pilots {
					n.drop(copied.Digest)
				}
			}
			w.finish(flow, time.Hour)
			w.run(2 * garbageTime)
			if !slices.Equal(s.deleted, bad) {
				t.Errorf("%s, seed %d: %v are deleted, want the bad copy %v", name, seed, s.deleted, bad)
			}
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
		finds := func(n *node) {
			n.stepWorker(worker.BadCopy{Copy: task.LostFile{LFN: good.LFN, Digest: good.Digest, URL: url, Reason: "it is damaged"}})
		}
		finds(pilots[1])
		if w.run(2 * time.Minute); !w.queue.workflow(flow).Finished() {
			t.Fatal("one node's word strikes the last copy")
		}
		finds(pilots[2])
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

// The same where a user found it and the queue has seen it.
func TestCopiesThatUsersFindBadAreStoredAgain(t *testing.T) {
	for _, cached := range []bool{true, false} {
		w := newWorld(t, 1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 3, 2)
		flow := w.submit("flow", one("maker", makes("o")))
		w.finish(flow, time.Hour)
		w.run(time.Minute)
		file := w.queue.files()[0].File
		url := file.Replicas[0].URL
		delete(s.stored, url)
		if !cached {
			for _, n := range pilots {
				n.drop(file.Digest)
			}
		}
		for _, want := range []bool{true, false} { // once
			var struck bool
			w.queue.must(func(t *taskqueue.Turn) (err error) {
				struck, err = w.queue.Rules.Strike(t, file, url)
				return err
			})
			if struck != want {
				t.Errorf("struck: %v", struck)
			}
		}
		if w.queue.workflow(flow).Finished() {
			t.Error("the workflow counts as finished without its output")
		}
		w.finish(flow, time.Minute)
		if again := w.queue.tasks(flow)[0].Generation > 1; again == cached {
			t.Errorf("cached %v: made again is %v", cached, again)
		}
	}
}

// A node to which whatever it reads from storage comes damaged has nothing made
// again: readers go to other nodes, and the copies stay.
func TestOneNodeStrikesNoLastCopy(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 3, 4)
		w.run1 = func(id task.ID, _ *node) time.Duration {
			if id.Name() == "slow" {
				return 5 * time.Minute
			}
			return 10 * time.Second
		}
		tasks := []task.Task{one("slow", makes("s"))}
		for i := range 6 {
			tasks = append(tasks, one(fmt.Sprint("maker", i), makes(fmt.Sprint("m", i))),
				one(fmt.Sprint("reader", i), reads(fmt.Sprint("m", i), "s"), makes(fmt.Sprint("o", i))))
		}
		flow := w.submit("flow", tasks...)
		if !w.runUntil(10*time.Minute, func() bool { return len(s.stored) == 6 }) {
			t.Fatal("the makers do not end")
		}
		w.run(time.Minute)
		pilots[0].misreads = true
		for _, copied := range s.stored {
			for _, n := range pilots {
				n.drop(copied.Digest)
			}
		}
		w.finish(flow, 20*time.Minute)
		for _, state := range w.queue.tasks(flow) {
			if state.Generation != 1 || state.Failures+state.StorageFaults+state.PilotFaults != 0 {
				t.Errorf("seed %d: %+v", seed, state)
			}
		}
	}
}

// Where no other node is there, the word of one is believed at its second look.
func TestALoneNodeIsBelieved(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	n := w.start(s, 1, 2)[0]
	flow := w.submit("flow", one("maker", makes("m")), one("slow", makes("s")), one("reader", reads("m", "s"), makes("o")))
	w.run1 = func(id task.ID, _ *node) time.Duration {
		if id.Name() == "slow" {
			return time.Minute
		}
		return 10 * time.Second
	}
	if !w.runUntil(10*time.Minute, func() bool { return len(s.stored) == 1 }) {
		t.Fatal("the maker does not end")
	}
	for url, copied := range s.stored {
		s.stored[url] = task.Produced{URL: url, Digest: digestOf("other bytes")}
		n.drop(copied.Digest)
	}
	before := w.queue.link.calls
	w.finish(flow, 5*time.Minute)
	if calls := w.queue.link.calls - before; calls > 200 {
		t.Errorf("%d calls to the queue meanwhile", calls)
	}
}

// A storage element that says that it has stored what it drops is not filled and read
// again and again without a pause.
func TestStorageThatDropsIsTriedWithPauses(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.addSite("siteA", nil), w.addSite("siteB", nil)
	w.start(a, 3, 2)
	w.start(b, 3, 2)
	a.drops, b.drops = true, true
	flow := w.submit("flow", tree(12)...)
	calls := w.queue.link.calls
	w.run(2 * time.Minute)
	if calls = w.queue.link.calls - calls; calls > 1200 {
		t.Errorf("%d calls within two minutes", calls)
	}
	a.drops, b.drops = false, false
	w.finish(flow, time.Hour)
}
