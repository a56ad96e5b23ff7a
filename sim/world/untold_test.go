package world

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// untold is a site of five pilots one of which has stored the output of a task that
// is done, which nobody but itself knows.
func untold(t *testing.T, seed uint64, byMaster bool, change func(*taskqueue.SiteRecord)) (w *world, s *site, maker *node, flow task.WorkflowID) {
	t.Helper()
	w = newWorld(t, seed)
	s = w.addSite("siteA", change)
	at := 3
	if byMaster {
		at = 0
	}
	for i := range 4 {
		slots := 1
		if i == at {
			slots = 2
		}
		n := w.start(s, 1, slots)[0]
		if i == at {
			maker = n
		}
	}
	w.run(5 * time.Second)
	w.run1 = func(task.ID, *node) time.Duration { return time.Minute }
	s.down = true
	flow = w.submit("flow", one("t", makes("o"), func(t *task.Task) { t.Resources.Cores = 2 }))
	w.run(30 * time.Second)
	w.start(s, 1, 2) // could run it again
	w.run(40 * time.Second)
	if got := w.queue.tasks(flow)[0].State; got != task.Done {
		t.Fatalf("the task is %s", got)
	}
	if byMaster != (s.master() == maker) {
		t.Fatal("the wrong pilot is master")
	}
	s.down = false
	if !w.runUntil(time.Minute, func() bool { return len(s.stored) == 1 }) {
		t.Fatal("nothing is stored")
	}
	if w.queue.workflow(flow).Finished() {
		t.Fatal("the queue has heard of it")
	}
	return w, s, maker, flow
}

// A pilot is killed after its output has reached the storage element and before
// anybody heard of it: the site finds the copy there within seconds, and nothing
// runs again, whoever dies with the pilot.
func TestCopiesThatNobodyToldAreFound(t *testing.T) {
	for name, kill := range map[string]func(w *world, s *site, maker *node){
		"maker": func(_ *world, _ *site, maker *node) { maker.kill() },
		"maker, master": func(_ *world, s *site, maker *node) {
			master := s.master()
			maker.kill()
			if master != maker {
				master.kill()
			}
		},
		"maker; the queue restarts": func(w *world, _ *site, maker *node) {
			w.queue.stop()
			maker.kill()
			w.after(5*time.Second, w.queue.start)
		},
		"maker, master; the queue restarts": func(w *world, s *site, maker *node) {
			master := s.master()
			w.queue.stop()
			maker.kill()
			if master != maker {
				master.kill()
			}
			w.after(5*time.Second, w.queue.start)
		},
	} {
		for _, byMaster := range []bool{false, true} {
			var all []time.Duration
			for seed := range uint64(5) {
				w, s, maker, flow := untold(t, seed+1, byMaster, nil)
				died := w.now()
				kill(w, s, maker)
				w.runUntil(30*time.Minute, func() bool { return w.queue.workflow(flow).Finished() })
				all = append(all, (w.now() - died).Round(100*time.Millisecond))
				if w.queue.tasks(flow)[0].Generation != 1 {
					t.Errorf("%s (master made it: %v), seed %d: it was made again", name, byMaster, seed+1)
				}
				w.check()
			}
			slices.Sort(all)
			t.Logf("%s (master made it: %v): pending for %s", name, byMaster, all)
			if longest := all[len(all)-1]; longest > 10*time.Second {
				t.Errorf("%s (master made it: %v): pending for %s", name, byMaster, longest)
			}
		}
	}
}

// The same where the storage element does not answer for a while: it is asked again
// before anything runs again.
func TestStorageIsAskedAgainForUntoldCopies(t *testing.T) {
	for seed := range uint64(3) {
		w, s, maker, flow := untold(t, seed+1, false, nil)
		s.down = true
		maker.kill()
		w.run(5 * time.Second)
		s.down = false
		w.finish(flow, 30*time.Second)
		if w.queue.tasks(flow)[0].Generation != 1 {
			t.Errorf("seed %d: it was made again", seed+1)
		}
	}
}

// The same where the queue matches tasks and each pilot is its own master.
func TestCopiesThatNobodyToldAreFoundWhereTheQueueMatches(t *testing.T) {
	for _, mode := range []taskqueue.Mode{taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
		var all []time.Duration
		for seed := range uint64(3) {
			w, _, maker, flow := untold(t, seed+1, false, inMode(mode))
			died := w.now()
			maker.kill()
			w.runUntil(30*time.Minute, func() bool { return w.queue.workflow(flow).Finished() })
			all = append(all, (w.now() - died).Round(100*time.Millisecond))
			if w.queue.tasks(flow)[0].Generation != 1 {
				t.Errorf("%s, seed %d: it was made again", mode, seed+1)
			}
			w.check()
		}
		t.Logf("%s: pending for %s", mode, all)
		if longest := slices.Max(all); longest > 10*time.Second {
			t.Errorf("%s: pending for %s", mode, longest)
		}
	}
}

// A whole site dies: the queue looks at its storage element itself. What is there
// counts, what is not is made again at another site; where the element does not
// answer for long everything is.
func TestTheQueueLooksForCopiesOfADeadSite(t *testing.T) {
	for name, is := range map[string]struct {
		stored, again bool
		away          time.Duration
	}{
		"stored":                {true, false, 0},
		"not stored":            {false, true, 0},
		"stored, away a while":  {true, false, 30 * time.Second},
		"stored, away for long": {true, true, time.Hour},
	} {
		w, s, _, flow := untold(t, 1, false, nil)
		other := w.addSite("siteB", nil)
		w.start(other, 1, 2)
		if !is.stored {
			clear(s.stored)
		}
		s.down = is.away > 0
		for _, n := range s.live() {
			n.kill()
		}
		if !w.runUntil(20*time.Minute, func() bool { return len(w.queue.alive(s.name)) == 0 }) {
			t.Fatal("the site does not count as dead")
		}
		died := w.now()
		w.after(is.away, func() { s.down = false })
		w.finish(flow, 10*time.Minute)
		t.Logf("%s: pending for %s", name, w.now()-died)
		if again := w.queue.tasks(flow)[0].Generation > 1; again != is.again {
			t.Errorf("%s: made again is %v", name, again)
		}
		if w.now()-died > is.away+10*time.Second && !is.again {
			t.Errorf("%s: pending for %s", name, w.now()-died)
		}
	}
}

// A master that the queue does not hear is told to stop, and goes before it could tell
// what it has stored: the copy is found and deleted when another attempt has won.
func TestCopiesOfAPilotThatLeftInHasteAreDeleted(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 3, 1)
	w.run1 = func(id task.ID, n *node) time.Duration {
		if n == pilots[0] {
			return 4 * time.Second
		}
		return time.Minute
	}
	flow := w.submit("flow", tree(6)...)
	w.runUntil(time.Minute, func() bool { return len(pilots[0].payloads) > 0 })
	if s.master() != pilots[0] {
		t.Fatal("the first pilot is to be master")
	}
	w.run(3 * time.Second)
	for _, n := range pilots {
		n.cutOff(true)
	}
	w.run(30 * time.Second) // the pauses between its calls have grown
	pilots[0].stop(time.Second)
	w.run(time.Second - time.Millisecond)
	for _, n := range pilots {
		n.cutOff(false)
	}
	w.finish(flow, time.Hour)
	w.run(30 * time.Minute)
	w.check()
	named := make(map[string]bool)
	for _, f := range w.queue.files() {
		for _, replica := range f.Replicas {
			named[replica.URL] = true
		}
	}
	for url := range s.stored {
		if !named[url] {
			t.Errorf("%s is left", url)
		}
	}
}

// A pilot that leaves while something is under way to storage that the queue does not count
// tells so: what arrives after it has gone is deleted, also when the queue does not hear its
// goodbye.
func TestWhatArrivesAfterItsPilotHasLeftIsDeleted(t *testing.T) {
	t.Parallel()
	arrived := 0
	for seed := range uint64(6) {
		unheard := seed >= 3
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 2, 1)
		s.slow = time.Minute
		w.run1 = func(task.ID, *node) time.Duration { return 5 * time.Second }
		id := task.NewID(w.submit("flow", one("maker", makes("m"))), "maker")
		w.runUntil(time.Minute, func() bool { return w.started[id] > 0 })
		maker := pilots[0]
		if len(maker.running()) == 0 {
			maker = pilots[1]
		}
		cut := func(off bool) {
			for _, n := range pilots {
				n.cutOff(off)
			}
		}
		cut(true)
		w.queue.must(func(t *taskqueue.Turn) error {
			_, err := w.queue.Rules.CancelTask(t, id)
			return err
		})
		w.run(10 * time.Second)
		cut(false)
		w.run(10 * time.Second) // the queue has no use for it, and it is under way
		maker.offline = unheard
		maker.stop(time.Minute)
		w.run(20 * time.Second)
		if maker.alive {
			t.Fatalf("%s does not leave", maker.id)
		}
		w.runUntil(2*time.Minute, func() bool { return len(s.stored) > 0 })
		arrived += len(s.stored)
		w.run(30 * time.Minute)
		if len(s.stored) > 0 {
			t.Errorf("seed %d: left on storage: %v", seed, s.stored)
		}
	}
	if arrived == 0 {
		t.Error("nothing has arrived")
	}
}
