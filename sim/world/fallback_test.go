package world

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// scatter cuts every pilot off from every other one.
func (w *world) scatter() {
	w.note("no pilot reaches another one")
	w.net.Partition(func(m *memnet.Node) int {
		for i, n := range w.pilots {
			if n.member == m {
				return i + 1
			}
		}
		return 0
	})
}

// twice counts the payloads that were begun beyond one of each task.
func (w *world) twice() (n int) {
	for _, times := range w.started {
		n += times - 1
	}
	return n
}

// Where the queue matches, work survives pilots that are killed, stopped and cut
// off, and a queue that is away; whoever is back works on.
func TestWorkWhereTheQueueMatches(t *testing.T) {
	t.Parallel()
	for _, mode := range []taskqueue.Mode{taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
		for seed := range uint64(4) {
			w := newWorld(t, seed+1)
			s := w.addSite("siteA", inMode(mode))
			pilots := w.start(s, 5, 2)
			flow := w.submit("flow", tree(60)...)
			w.run(5 * time.Second)
			pilots[0].kill()
			w.run(4 * time.Second)
			w.queue.stop()
			w.run(15 * time.Second)
			w.queue.start()
			pilots[1].cutOff(true)
			w.run(40 * time.Second)
			pilots[1].cutOff(false)
			pilots[2].stop(10 * time.Second)
			w.finish(flow, 20*time.Minute)
			w.run(15 * time.Second) // until one is back and another has left
			if known, live := w.queue.alive(s.name), s.liveIDs(); !slices.Equal(known, live) || len(live) != 3 {
				t.Errorf("%s, seed %d: the queue has %v for living, %v live", mode, seed+1, known, live)
			}
			again := w.submit("again", many(30)...)
			w.finish(again, 10*time.Minute)
			if len(pilots[1].payloads) == 0 {
				t.Errorf("%s, seed %d: a pilot that was cut off gets nothing", mode, seed+1)
			}
		}
	}
}

// An operator changes the mode while payloads run: none is begun twice.
func TestAChangeOfModeKeepsWhatRuns(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		w.start(s, 4, 2)
		w.run1 = func(task.ID, *node) time.Duration { return 7 * time.Second }
		flow := w.submit("flow", tree(60)...)
		for _, mode := range []taskqueue.Mode{"isolated", "distributed", "centralized", "distributed", "isolated", "distributed"} {
			w.run(9 * time.Second)
			s.setMode(mode)
		}
		w.finish(flow, 20*time.Minute)
		if n := w.twice(); n > 0 {
			t.Errorf("seed %d: %d payloads were begun beyond one of each task", seed+1, n)
		}
	}
}

// A site whose pilots do not reach one another falls back, works on, and goes
// back when the network is whole, also if the queue was away meanwhile and a
// pilot came. What runs when it goes back goes on.
func TestAFallbackEndsWithItsCause(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		w.start(s, 5, 2)
		w.run1 = func(task.ID, *node) time.Duration { return 10 * time.Second }
		flow := w.submit("flow", tree(200)...)
		w.run(5 * time.Second)
		w.scatter()
		if !w.runUntil(time.Minute, func() bool { return s.mode() == "isolated+" }) {
			t.Fatalf("seed %d: the site does not fall back", seed+1)
		}
		w.run(90 * time.Second) // a trial or two in vain
		ended := len(w.ended)
		w.queue.stop()
		w.run(20 * time.Second)
		w.queue.start()
		w.startOne(s, 2, nil)
		w.scatter()
		w.run(20 * time.Second)
		if s.mode() != "isolated+" || len(w.ended) <= ended {
			t.Errorf("seed %d: mode %s, %d tasks have ended after %d", seed+1, s.mode(), len(w.ended), ended)
		}
		w.part(nil)
		begun := w.twice()
		if !w.runUntil(5*time.Minute, func() bool { return s.mode() == "distributed" }) {
			t.Fatalf("seed %d: the fallback does not end", seed+1)
		}
		w.run(30 * time.Second)
		if now := w.twice(); s.mode() != "distributed" || now > begun {
			t.Errorf("seed %d: mode %s, %d payloads were begun again", seed+1, s.mode(), now-begun)
		}
		w.finish(flow, 30*time.Minute)
		if known, live := w.queue.alive(s.name), s.liveIDs(); !slices.Equal(known, live) || len(live) != 6 {
			t.Errorf("seed %d: the queue has %v for living, %v live", seed+1, known, live)
		}
	}
}

// A site in two halves stays isolated, with ever fewer trials. One whose master
// alone is cut off goes on without it.
func TestWhoIsCutOffWhenASiteFallsBack(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 6, 1)
	w.part(pilots[3:])
	w.run(time.Minute)
	before := pilots[0].trials
	for range 60 {
		w.run(time.Minute)
		if s.mode() != "isolated+" {
			t.Fatalf("mode %s of a site in two halves", s.mode())
		}
	}
	if tried := pilots[0].trials - before; tried < 3 || tried > 7 {
		t.Errorf("%d trials in an hour", tried)
	}
	for seed := range uint64(16) {
		w = newWorld(t, seed+1)
		s = w.addSite("siteA", nil)
		pilots = w.start(s, 6, 1)
		w.part(pilots[:1])
		if !w.runUntil(time.Minute, func() bool { return s.mode() == "isolated+" }) {
			t.Fatal("the site does not fall back when its master is cut off")
		}
		w.run(10 * time.Minute)
		if master := s.master(); s.mode() != "distributed" || master == nil || master == pilots[0] {
			t.Errorf("seed %d: mode %s, master %v, %d in office of the queue's reckoning", seed+1, s.mode(), master == pilots[0], s.world.queue.site(s.name).Term.Epoch)
		}
	}
	w.finish(w.submit("flow", tree(20)...), 10*time.Minute)
}

// A master says once that the mode of the site has changed. A pilot that has just heard
// another one from the queue, as from the answer to a claim, takes the master's word a
// while later, and is not left behind in a mode in which it does not call.
func TestAPilotThatHoldsToTheQueuesWordFollowsTheMasterInTheEnd(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 3, 1)
	w.run(5 * time.Second)
	for _, n := range pilots[1:] {
		n.takeSettings(n.clock(), n.office.Settings())
	}
	w.run(time.Second)
	s.setMode(taskqueue.ModeCentralized)
	w.run(3 * time.Minute)
	for _, n := range pilots {
		if n.office.Settings().Mode != string(taskqueue.ModeCentralized) {
			t.Errorf("%s is left in mode %s", n.id, n.office.Settings().Mode)
		}
	}
	w.judgePilots(s)
}
