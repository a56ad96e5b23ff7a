package world

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// A part of a site that is cut off from the rest and from the queue does not run
// what the rest runs: beside what its pilots had in hand and what is begun until
// the silence is noticed, no task runs twice.
func TestAPartThatIsCutOffWaits(t *testing.T) {
	for name, cut := range map[string][]int{
		"with the master": {0, 1, 2}, "with who keeps the hand-out": {1, 2, 3}, "of the rest": {3, 4, 5}, "of two": {0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			s := w.addSite("siteA", nil)
			pilots := w.start(s, 6, 4)
			w.run1 = func(task.ID, *node) time.Duration { return 4 * time.Second }
			flow := w.submit("flow", tree(120)...)
			w.run(15 * time.Second)
			if s.master() != pilots[0] {
				t.Fatal("the first pilot is to be the master")
			}
			var group []*node
			for _, i := range cut {
				group = append(group, pilots[i])
			}
			w.part(group)
			for _, n := range group {
				n.cutOff(true)
			}
			w.run(2 * time.Minute)
			w.part(nil)
			for _, n := range group {
				n.cutOff(false)
			}
			w.finish(flow, 10*time.Minute)
			twice := 0
			for _, times := range w.started {
				twice += times - 1
			}
			// What ran, what was given early, and the next two of each slot.
			if most := 4 * 4 * len(cut); twice > most {
				t.Errorf("%d tasks were begun twice, more than %d", twice, most)
			}
		})
	}
}

// A site that the queue does not answer goes on with its hand-out, also without a
// pilot or two that have died.
func TestASiteGoesOnWithoutTheQueue(t *testing.T) {
	for name, c := range map[string]struct {
		pilots int
		killed []int
	}{
		"one of two": {2, []int{1}}, "the master of two": {2, []int{0}}, "two of five": {5, []int{0, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			s := w.addSite("siteA", nil)
			pilots := w.start(s, c.pilots, 2)
			flow := w.submit("flow", tree(8)...)
			w.runUntil(time.Minute, func() bool { return len(w.started) >= 2 })
			w.queue.stop()
			w.run(2 * time.Second)
			for _, i := range c.killed {
				pilots[i].kill()
			}
			if !w.runUntil(2*time.Minute, func() bool { return len(w.ended) == 16 }) {
				t.Errorf("%d of 16 tasks have ended", len(w.ended))
			}
			w.queue.start()
			w.finish(flow, 10*time.Minute)
		})
	}
}

// A site that has lost half of its pilots while the queue is away does not wait as
// long as its lease lasts.
func TestHalfASiteGoesOnInTheEnd(t *testing.T) {
	config := taskqueue.DefaultConfig()
	config.Lease.TTL = 24 * time.Hour
	w := newTestWorld(t, 1, config)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 4, 2)
	w.run1 = func(task.ID, *node) time.Duration { return time.Minute }
	flow := w.submit("flow", tree(8)...)
	w.runUntil(time.Minute, func() bool { return len(w.started) >= 8 })
	w.queue.stop()
	w.run(2 * time.Second)
	pilots[0].kill()
	pilots[1].kill()
	w.run(5 * time.Minute)
	if len(w.ended) > 8 {
		t.Fatalf("%d tasks have ended: half of the site does not wait", len(w.ended))
	}
	if !w.runUntil(20*time.Minute, func() bool { return len(w.ended) == 16 }) {
		t.Errorf("%d of 16 tasks have ended", len(w.ended))
	}
	w.queue.start()
	w.finish(flow, 10*time.Minute)
}

// A part of a site has a provisional master whose membership is revoked, and who leaves
// when the queue says so: those who follow it come back to the master that the queue has.
func TestFollowersOfARevokedMasterComeBack(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 5, 1)
	w.run(10 * time.Second)
	group := pilots[3:]
	w.part(group)
	for _, n := range group {
		n.cutOff(true)
	}
	masterOf := func(n *node) *node {
		chief, _ := n.member.Overlay.Master()
		return w.peers[chief.Peer]
	}
	if !w.runUntil(time.Minute, func() bool { return masterOf(group[0]) == masterOf(group[1]) && masterOf(group[0]) != s.master() }) {
		t.Fatal("the part has no master of its own")
	}
	revoked := masterOf(group[0])
	w.queue.must(func(turn *taskqueue.Turn) error { return w.queue.Rules.Deny(turn, string(revoked.id)) })
	w.run(5 * time.Second)
	w.part(nil)
	for _, n := range group {
		n.cutOff(false)
	}
	w.run(2 * time.Second)
	revoked.stop(0)
	w.run(time.Minute)
	for _, n := range s.live() {
		if n == revoked || masterOf(n) != s.master() {
			t.Errorf("%s has the master %s, and the queue %s", n.id, masterOf(n).id, s.master().id)
		}
	}
}
