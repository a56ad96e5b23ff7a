package world

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// The queue is put back to a state from before a pilot registered: the pilot is
// told to leave as soon as the queue hears of what it does, no task is run there
// again and again, and all work ends at the others.
func TestPilotThatTheQueueForgot(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 3, 2)
		stranger := pilots[2]
		if s.master() == stranger {
			t.Fatal("the stranger is to be no master")
		}
		w.run(5 * time.Second)
		w.queue.must(func(turn *taskqueue.Turn) error {
			sites, err := turn.Sites().Load(s.name)
			if err != nil {
				return err
			}
			sites[0].Pilots--
			sites[0].Registered -= stranger.slots
			if err := turn.Sites().Save(sites[0]); err != nil {
				return err
			}
			return turn.Pilots().Delete(stranger.id)
		})
		err := w.queue.Update(func(turn *taskqueue.Turn) error {
			_, err := w.queue.Rules.Claim(turn, taskqueue.Claim{Site: s.name, Pilot: stranger.id})
			return err
		})
		if !errors.Is(err, taskqueue.ErrStranger) {
			t.Errorf("a claim of the stranger: %v", err)
		}
		began := make(map[task.ID]int) // at the stranger
		w.run1 = func(id task.ID, at *node) time.Duration {
			if at == stranger {
				began[id]++
			}
			return time.Second
		}
		flow := w.submit("flow", tree(40)...)
		w.finish(flow, 20*time.Minute)
		if len(began) == 0 {
			t.Fatal("the stranger was given nothing: this tests nothing")
		}
		for id, times := range began {
			if times > 1 {
				t.Errorf("seed %d: the stranger ran %s %d times", seed, id, times)
			}
		}
		if len(began) > 10 {
			t.Errorf("seed %d: the stranger ran %d tasks before it left", seed, len(began))
		}
		if !w.runUntil(time.Minute, func() bool { return !stranger.alive }) {
			t.Errorf("seed %d: the stranger has not left", seed)
		}
		w.run(time.Minute)
		if site := w.queue.site(s.name); len(site.Drain)+len(site.Strangers) > 0 {
			t.Errorf("seed %d: the site still has %v and %v to drain", seed, site.Drain, site.Strangers)
		}
	}
}

// The queue is put back to a copy, with pilots that live: masters have gone and
// come since, pilots have registered, leases have been given out and outputs
// stored that the copy does not know. All that the copy knows ends, what was
// submitted later is gone, and the site has a master that the queue knows.
func TestRestoreWithLivePilots(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		w.start(s, 4, 2)
		w.run1 = func(task.ID, *node) time.Duration { return 2 * time.Second }
		flow := w.submit("before", tree(60)...)
		w.run(time.Duration(3+seed) * time.Second)
		// Outputs are on their way to storage when the copy is made.
		if !w.runUntil(time.Minute, func() bool { return w.queue.workflow(flow).Unstored < 60 && onTheWay(w) > 0 }) {
			t.Fatal("no upload is under way")
		}
		copied := w.queue.backup()
		w.run(time.Second)
		later := w.submit("after", tree(20)...)
		masters := int(seed % 3) // that go after the copy
		for range masters {
			s.master().kill()
			w.start(s, 2, 2)
			w.run(20 * time.Second)
		}
		w.run(10 * time.Second)
		w.queue.stop()
		w.run(5 * time.Second)
		before := w.queue.site(s.name).Term
		w.queue.restore(copied)
		if restored := w.queue.site(s.name).Term; masters > 0 && !restored.Less(before) {
			t.Fatalf("the copy has term %s, the site %s: this tests nothing", restored, before)
		}
		if found := w.queue.workflow(later); found.ID != "" {
			t.Fatalf("the copy knows %s", found.Name)
		}
		w.finish(flow, 20*time.Minute)
		again := w.submit("again", tree(40)...)
		w.finish(again, 20*time.Minute)
		if term := w.queue.site(s.name).Term; masters > 0 && !before.Less(term) {
			t.Errorf("seed %d: term %s follows term %s", seed, term, before)
		}
		for id, times := range w.started {
			if times > 6 {
				t.Errorf("seed %d: %s was run %d times", seed, id, times)
			}
		}
		for _, n := range s.live() {
			if w.queue.pilot(n.id).ID == "" {
				t.Errorf("seed %d: %s is there, and the queue does not know it", seed, n.id)
			}
		}
	}
}

// What ended between a backup and its restore runs for nobody any more, although
// its pilots live; it is run again, although its site has other work of the same
// lease, and what has read it waits for its outcome.
func TestWhatEndedSinceABackupRunsAgain(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		w.start(s, 4, 2)
		w.run1 = func(id task.ID, _ *node) time.Duration {
			if id.Name() == "long" {
				return 30 * time.Minute
			}
			return 2 * time.Second
		}
		flow := w.submit("flow", append(tree(16), one("long", makes("l")))...)
		w.run(time.Duration(1+seed) * time.Second)
		copied := w.queue.backup()
		w.run(time.Duration(1+seed%4) * time.Second)
		w.queue.stop()
		w.run(3 * time.Second)
		w.queue.restore(copied)
		if !w.runUntil(2*time.Minute, func() bool { return w.queue.workflow(flow).Counts[task.Done] == 32 }) {
			t.Errorf("seed %d: two minutes after the restore the short tasks are not over: %v", seed, w.queue.workflow(flow).Counts)
		}
		for _, n := range s.live() {
			for _, a := range w.queue.runningAt(n) {
				if a.Outcome.Attempt.Task.Name() != "long" {
					t.Errorf("seed %d: %s runs, by the queue's lists", seed, a.Outcome.Attempt)
				}
			}
		}
		w.finish(flow, 2*time.Hour)
	}
}

// onTheWay counts the outputs that the queue knows and no storage element has yet.
func onTheWay(w *world) (found int) {
	for _, f := range w.queue.files() {
		if !f.Producer.IsZero() && f.Final && len(f.Replicas) == 0 {
			found++
		}
	}
	return found
}

// What was made before the queue went back to a backup is made again; then the pilot that
// has made it dies before any storage element has it. Its site's master, which knows both
// and is asked for the second, tells that it is lost, and it is made once more.
func TestWhatWasMadeTwiceAndIsLostIsMadeAgain(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	w.start(s, 3, 1)
	s.down = true
	flow := w.submit("flow", one("maker", makes("m")))
	before := w.queue.backup()
	w.makerOf("m")
	w.goBack(before)
	maker := w.makerOf("m")
	w.goBack(w.queue.backup()) // it asks for what it knows at every start
	w.run(20 * time.Second)
	if maker == s.master() {
		t.Fatal("the master has made it: this tests nothing")
	}
	maker.kill()
	s.down = false
	w.finish(flow, 30*time.Minute)
}

// Without storage a file is searched for when its maker is gone, and is found in another
// cache. The queue goes back to a backup, and what is made again is lost as well: it is
// looked for by itself, and made once more.
func TestWhatIsMadeAgainIsLookedForByItself(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", withoutStorage)
	pilots := w.start(s, 5, 1)
	w.run1 = func(id task.ID, _ *node) time.Duration {
		if id.Name() == "long" {
			return 10 * time.Minute
		}
		return time.Second
	}
	flow := w.submit("flow", one("maker", makes("m")), one("long", makes("l")), one("reader", reads("m", "l"), makes("r")))
	before := w.queue.backup()
	maker := w.makerOf("m")
	busy := pilots[slices.IndexFunc(pilots, func(n *node) bool { return len(n.running()) > 0 })]
	busy.files.CopyIn(w.fileNamed("m").File, func(worker.CopiedIn) {})
	w.run(time.Second)
	maker.kill()
	w.run(10 * time.Second)
	w.goBack(before)
	w.makerOf("m").kill()
	if !w.runUntil(30*time.Minute, func() bool { return w.queue.workflow(flow).Over() }) {
		t.Errorf("the workflow does not end: %v", w.queue.workflow(flow).Counts)
	}
}

// fileNamed returns what the queue has recorded of a file.
func (w *world) fileNamed(name string) taskqueue.FileRecord {
	files := w.queue.files()
	return files[slices.IndexFunc(files, func(f taskqueue.FileRecord) bool { return f.LFN.Local() == name })]
}

// makerOf waits until a file is made, and returns the pilot that has made it.
func (w *world) makerOf(name string) *node {
	if !w.runUntil(time.Minute, func() bool { return !w.fileNamed(name).Producer.IsZero() }) {
		w.judge.Fatalf("%s is not made", name)
	}
	return w.peers[w.queue.pilot(w.fileNamed(name).Producer.Pilot).Peer]
}

// goBack puts the queue back to a copy.
func (w *world) goBack(to backup) {
	w.queue.stop()
	w.queue.restore(to)
}

// What a queue, put back to a backup, has had made again is dropped with its workflow, although a
// search for what was made before goes on under its name.
func TestWhatIsMadeAgainIsDropped(t *testing.T) {
	w := newWorld(t, 1)
	w.alike = true
	s := w.addSite("siteA", withoutStorage)
	pilots := w.start(s, 5, 1)
	w.run1 = func(id task.ID, _ *node) time.Duration {
		if id.Name() == "long" {
			return time.Minute
		}
		return time.Second
	}
	flow := w.submit("flow", one("maker", makes("m")), one("long", makes("l")), one("reader", reads("m", "l"), makes("r")))
	before := w.queue.backup()
	maker := w.makerOf("m")
	busy := pilots[slices.IndexFunc(pilots, func(n *node) bool { return len(n.running()) > 0 })]
	busy.files.CopyIn(w.fileNamed("m").File, func(worker.CopiedIn) {})
	w.run(time.Second)
	maker.kill()
	w.run(10 * time.Second)
	w.goBack(before)
	w.makerOf("m")
	if !w.runUntil(30*time.Minute, func() bool { return w.queue.workflow(flow).Over() }) {
		t.Fatalf("the workflow does not end: %v", w.queue.workflow(flow).Counts)
	}
	w.queue.must(func(t *taskqueue.Turn) error {
		_, err := w.queue.Rules.DeleteWorkflow(t, flow, false)
		return err
	})
	w.run(30 * time.Minute)
	for _, n := range s.live() {
		for _, kept := range n.files.Soles() {
			t.Errorf("%s keeps %v, which nobody needs", n.id, kept)
		}
	}
}
