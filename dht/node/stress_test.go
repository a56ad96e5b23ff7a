package node

import (
	"sync"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

// TestCloseAtAnyMoment closes nodes while everything else goes on; the race
// detector and goleak judge.
func TestCloseAtAnyMoment(t *testing.T) {
	for range 3 {
		s := newSite(t, "siteA")
		pilots := joinMany(t, s, 3)
		var calls sync.WaitGroup
		for i, p := range pilots {
			next := pilots[(i+1)%len(pilots)]
			for n := range 3 {
				calls.Go(func() {
					for k := range 20 {
						p.Send(next.self.Peer, make([]byte, 32<<10))
						p.Broadcast(uint64(100*n+k), []byte("x"), true)
						p.Announce("lfn:a")
						p.Members()
						if _, err := p.Locate(t.Context(), []task.FileKey{"lfn:a"}, nil); err != nil {
							return // closed meanwhile
						}
					}
				})
			}
			calls.Go(func() { _ = p.Probe(t.Context(), next.self, "") }) // answered or not
			calls.Go(func() { _ = p.Leave(t.Context()) })                // in time or not
			calls.Go(p.close)
		}
		calls.Wait()
	}
}
