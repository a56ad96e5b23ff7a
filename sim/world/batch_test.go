package world

import (
	"testing"
	"time"
)

// A site whose factory keeps no pilots gets some when tasks come and none is left when
// they have had nothing to do; the outputs that only their caches had are stored.
func TestPilotsComeAndGoWithTheWork(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed+1)
		w.bounded = true
		s := w.addSite("siteA", nil)
		s.submits(0, 6, 2)
		w.run(10 * time.Minute)
		if len(w.pilots) > 0 {
			t.Fatalf("seed %d: %d pilots came, for no task", seed+1, len(w.pilots))
		}
		for _, name := range []string{"first", "second"} {
			came := len(w.pilots)
			flow := w.submit(name, named(name, tree(10))...)
			w.finish(flow, time.Hour)
			if came = len(w.pilots) - came; came == 0 || came > 6 {
				t.Errorf("seed %d: %d pilots came for 20 tasks of 6 nodes with two slots", seed+1, came)
			}
			w.run(idleLimit + 10*time.Minute)
			if left := len(s.live()); left > 0 {
				t.Errorf("seed %d: %d pilots have nothing to do and stay", seed+1, left)
			}
			w.check()
		}
	}
}
