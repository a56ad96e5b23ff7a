package live_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// liveSize is how many real nodes a test runs.
const liveSize = 12

func TestSiteOfRealNodes(t *testing.T) {
	s := newLive(t)
	began := time.Now()
	pilots := s.join(liveSize)
	s.settled(20*time.Second, pilots)
	t.Logf("%d nodes joined in %s", liveSize, time.Since(began))
	done := pilots[3].ask(7, []byte("who is there?"))
	if done.Reached != liveSize || len(done.Missed) != 0 || len(done.Data) != liveSize {
		t.Fatalf("reached %d, missed %v, %d replies; want %d, none, %d", done.Reached, done.Missed, len(done.Data), liveSize, liveSize)
	}
	file := task.FileKey("lfn:db.fa")
	pilots[4].Announce(file)
	s.await(10*time.Second, "the holder", func() bool {
		found, err := pilots[9].Locate(t.Context(), []task.FileKey{file}, nil)
		return err == nil && len(found[file]) == 1 && found[file][0].Peer == pilots[4].self.Peer
	})
	for kind, traffic := range s.carrier.SentByAll() {
		t.Logf("%s: %d messages, %d bytes", kind, traffic.Messages, traffic.Bytes)
	}
}

// TestKilledMasterIsFollowedAndHungNodeComesBack shows the knobs on a small site:
// the rules are those of a real network.
func TestKilledMasterIsFollowedAndHungNodeComesBack(t *testing.T) {
	s := newLive(t)
	pilots := s.join(liveSize)
	s.settled(20*time.Second, pilots)
	pilots[5].hang()
	done := pilots[0].ask(1, nil) // the master knows whom it misses
	if want := len(pilots) - 1; done.Reached != want || len(done.Missed) != 1 || done.Missed[0] != pilots[5].self.Peer {
		t.Fatalf("with one hung: reached %d, missed %v; want %d and %s", done.Reached, done.Missed, want, pilots[5].self.Peer)
	}
	pilots[5].resume()
	if done := pilots[1].ask(2, nil); done.Reached != len(pilots) {
		t.Fatalf("after its return: reached %d, missed %v; want %d, none", done.Reached, done.Missed, len(pilots))
	}
	began := time.Now()
	pilots[0].kill()
	left := pilots[1:]
	s.await(20*time.Second, "the second epoch at everyone", func() bool {
		return !slices.ContainsFunc(left, func(p *livePilot) bool { return p.hears().Term.Epoch != 2 })
	})
	t.Logf("taken over after %s", time.Since(began))
	s.settled(20*time.Second, left)
}

// Pilots end in the very moment in which others dial them. What can go wrong
// there only the race detector sees.
func TestPilotsEndWhileOthersDialThem(t *testing.T) {
	s := newLive(t)
	for range 20 {
		leaver := s.join(1)[0]
		var ending sync.WaitGroup
		ending.Go(leaver.kill)
		s.join(1)
		ending.Wait()
	}
}
