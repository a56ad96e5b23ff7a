package node

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func joinMany(t testing.TB, s *site, count int) []*pilot {
	t.Helper()
	var pilots []*pilot
	for range count {
		pilots = append(pilots, s.join())
	}
	settled(t, pilots)
	return pilots
}

func TestTenPilotsOnOneSite(t *testing.T) {
	s := newSite(t, "siteA")
	pilots := joinMany(t, s, 10)

	t.Run("broadcast reaches all and brings their replies", func(t *testing.T) {
		pilots[3].Broadcast(7, []byte("who is there?"), true)
		done := waitFor(t, pilots[3], "the end of broadcast 7", func(d dht.Done) bool { return d.N == 7 })
		if done.Reached != 10 || len(done.Missed) != 0 || len(done.Data) != 10 {
			t.Fatalf("reached %d, missed %v, %d replies, want 10, none, 10", done.Reached, done.Missed, len(done.Data))
		}
		replies := make(map[string]bool)
		for _, data := range done.Data {
			replies[string(data)] = true
		}
		if len(replies) != 10 {
			t.Fatalf("replies of %d different pilots, want 10", len(replies))
		}
	})

	t.Run("bytes between two members keep their order", func(t *testing.T) {
		for i := range 500 {
			pilots[1].Send(pilots[2].self.Peer, fmt.Appendf(nil, "%d", i))
		}
		from := pilots[1].self.Peer
		pilots[2].await(t, "500 messages", func() bool { return len(pilots[2].inbound[from]) == 500 })
		for i, got := range pilots[2].inbound[from] {
			if got != fmt.Sprint(i) {
				t.Fatalf("message %d is %s", i, got)
			}
		}
	})

	t.Run("locations are found from everywhere until withdrawn", func(t *testing.T) {
		file, other := task.FileKey("lfn:db.fa"), task.FileKey("lfn:nobody.has.it")
		pilots[4].Announce(file)
		pilots[5].Announce(file)
		for _, asker := range []*pilot{pilots[0], pilots[9]} {
			eventually(t, "both holders at "+string(asker.self.Pilot), func() bool {
				found, err := asker.Locate(t.Context(), []task.FileKey{file, other}, nil)
				return err == nil && len(found[file]) == 2 && len(found[other]) == 0
			})
		}
		pilots[4].Withdraw(file)
		eventually(t, "one holder left", func() bool {
			found, err := pilots[0].Locate(t.Context(), []task.FileKey{file}, nil)
			return err == nil && len(found[file]) == 1 && found[file][0].Peer == pilots[5].self.Peer
		})
	})

	t.Run("kad-dht connects them too", func(t *testing.T) {
		eventually(t, "a routing table at everyone", func() bool {
			for _, p := range pilots {
				if p.routing.kad.RoutingTable().Size() < 3 {
					return false
				}
			}
			return true
		})
	})
}

func TestLowestIDTakesOverFromADeadMaster(t *testing.T) {
	s := newSite(t, "siteA")
	pilots := joinMany(t, s, 6)
	began := time.Now()
	pilots[0].close()
	left := pilots[1:]
	want := left[0]
	for _, p := range left {
		if dht.KeyOfPeer(p.self.Peer).Less(dht.KeyOfPeer(want.self.Peer)) {
			want = p
		}
	}
	for _, p := range left {
		got := waitFor(t, p, "a new master", func(m dht.MasterChanged) bool { return m.Term.Epoch == 2 })
		if got.Master.Peer != want.self.Peer {
			t.Fatalf("pilot %s follows %s, want %s, the lowest id", p.self.Pilot, got.Master.Pilot, want.self.Pilot)
		}
	}
	t.Logf("taken over after %s", time.Since(began))
	settled(t, left)
}

// A pilot that looks around also looks for a part of the key space in which it knows nobody
// any more, though somebody is there: its own lookup finds those near by only.
func TestAPartInWhichNobodyIsKnownIsFilledAgain(t *testing.T) {
	s := newSite(t, "siteA")
	half := func(p *pilot) byte { return dht.KeyOfPeer(p.self.Peer)[0] >> 7 }
	var near []*pilot // of one half of the key space
	var far *pilot    // of the other, alone there
	for len(near) < 12 || far == nil {
		switch p := s.listen(); {
		case len(near) == 0 || half(p) == half(near[0]) && len(near) < 12:
			s.register(p)
			near = append(near, p)
		case half(p) != half(near[0]) && far == nil:
			s.register(p)
			far = p
		}
	}
	eventually(t, "the master meets all", func() bool { return near[0].Size() == 13 })
	for _, p := range near {
		table := p.routing.kad.RoutingTable()
		table.RemovePeer(far.host.ID())
		eventually(t, "who lost all in the other half of the key space finds somebody", func() bool {
			p.look(dht.Lookup{Target: string(p.host.ID())})
			return table.Find(far.host.ID()) != ""
		})
	}
}
