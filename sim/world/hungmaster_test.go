package world

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Where no master matches tasks, one that hung, and whom nobody of its overlay is left to
// tell, finds the overlay of those who came meanwhile by what the queue answers.
func TestAMasterThatHungFindsThoseWhoCameLater(t *testing.T) {
	for _, mode := range []taskqueue.Mode{taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
		w := newWorld(t, 1)
		s := w.addSite("siteA", inMode(mode))
		hung := w.start(s, 1, 1)[0]
		w.run(10 * time.Second)
		hung.pause()
		if !w.runUntil(10*time.Minute, func() bool { return len(w.queue.alive(s.name)) == 0 }) {
			t.Fatalf("%s: a pilot that hangs counts as alive", mode)
		}
		later := w.start(s, 1, 1)[0]
		if !w.runUntil(time.Minute, func() bool { return s.master() == later }) {
			t.Fatalf("%s: who came later is not master", mode)
		}
		hung.resume()
		w.run(15 * time.Second)
		for _, n := range []*node{hung, later} {
			if chief, _ := n.member.Overlay.Master(); chief.Pilot != later.id || n.member.Overlay.Size() != 2 {
				t.Errorf("%s: %s has the master %s, in an overlay of %d", mode, n.id, chief.Pilot, n.member.Overlay.Size())
			}
		}
	}
}
