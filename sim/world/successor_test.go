package world

import (
	"slices"
	"testing"
	"time"
)

// A master is killed with the queue or while that is away: seconds after it is
// back, the queue has for living who lives.
func TestTheQueueHearsOfMastersThatDiedWithIt(t *testing.T) {
	for name, kill := range map[string]func(w *world, s *site){
		"with the queue": func(w *world, s *site) {
			master := s.master()
			w.queue.stop()
			master.kill()
			w.after(5*time.Second, w.queue.start)
		},
		"with the queue, which is back at once": func(w *world, s *site) {
			master := s.master()
			w.queue.stop()
			master.kill()
			w.after(300*time.Millisecond, w.queue.start)
		},
		"while the queue is away for long": func(w *world, s *site) {
			w.queue.stop()
			w.run(30 * time.Second)
			s.master().kill()
			w.after(30*time.Second, w.queue.start)
		},
		"with another pilot": func(_ *world, s *site) {
			master, other := s.master(), s.live()[3]
			master.kill()
			other.kill()
		},
	} {
		var all []time.Duration
		for seed := range uint64(5) {
			w := newWorld(t, seed+1)
			s := w.addSite("siteA", nil)
			w.start(s, 6, 1)
			w.run(10 * time.Second)
			kill(w, s)
			w.runUntil(time.Minute, func() bool { return !w.queue.away })
			back := w.now()
			w.runUntil(10*time.Minute, func() bool { return slices.Equal(w.queue.alive(s.name), s.liveIDs()) })
			all = append(all, (w.now() - back).Round(100*time.Millisecond))
		}
		slices.Sort(all)
		t.Logf("%s: known after %s", name, all)
		if longest := all[len(all)-1]; longest > 10*time.Second {
			t.Errorf("%s: known after %s", name, longest)
		}
	}
}
