package dht_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// Who joins is brought to the eight nearest to it: a pilot whose site grows knows who is
// near without looking around again, and tells all three keepers of a file at once.
func TestANeighbourhoodThatGrowsNeedsNoLookup(t *testing.T) {
	few, all, asked := number(0, 20), number(0, 200), 0
	for i := 1; i < 10; i++ {
		p := worker(t, member(i), member(0), few)
		p.pass(10 * time.Second)
		looked := 0
		for _, newcomer := range all[20:] {
			looked += looks(p.step(dht.Routed{Member: newcomer}))
		}
		p.site = all
		if looked += looks(p.pass(30 * time.Second)); looked > 0 {
			t.Errorf("member %d looked around %d times as others joined", i, looked)
		}
		if f, found := fileOf(p.self.Peer, all); found {
			asked++
			p.step(dht.Announce{Files: []task.FileKey{f}})
			if told := sent[dht.Put](p.pass(10 * time.Millisecond)); len(told) != 2 {
				t.Errorf("member %d told %d others of a file at first, want 2", i, len(told))
			}
		}
	}
	if asked == 0 {
		t.Error("no file is near to any of the members")
	}
}

// looks counts a pilot's lookups of its own key: it looks for the master, too, who is silent.
func looks(actions []dht.Action) (n int) {
	for _, wish := range done[dht.Lookup](actions) {
		if wish.Target != dht.Bottom {
			n++
		}
	}
	return n
}

// fileOf finds a file whose key is so near to a member's that the five nearest to it are
// of one neighbourhood.
func fileOf(peer task.PeerID, all []dht.Member) (task.FileKey, bool) {
	for i := range 2000 {
		f := task.FileKey(fmt.Sprintf("near-%d", i))
		near, key := nearest(all, f, 8), dht.KeyOfFile(f)
		far := func(other task.PeerID) bool { return key.Common(dht.KeyOfPeer(other)) < 5 }
		if near[0] == peer && !slices.ContainsFunc(near[:4], far) {
			return f, true
		}
	}
	return "", false
}

// Where a lookup returns as many as it can, it tells no more when it is done again: a pilot
// that has few near by waits for them as others do.
func TestFewNeighboursAreNotLookedForEverySecond(t *testing.T) {
	all, lonely := number(0, 200), 0
	for i := 1; i < 200; i++ {
		self := member(i)
		near := slices.DeleteFunc(slices.Clone(all), func(m dht.Member) bool { return m.Peer == self.Peer })
		key := dht.KeyOfPeer(self.Peer)
		slices.SortFunc(near, func(a, b dht.Member) int {
			if key.Closer(dht.KeyOfPeer(a.Peer), dht.KeyOfPeer(b.Peer)) {
				return -1
			}
			return 1
		})
		if key.Common(dht.KeyOfPeer(near[1].Peer)) > key.Common(dht.KeyOfPeer(near[7].Peer)) {
			continue // two others at least are in its neighbourhood
		}
		lonely++
		p := worker(t, self, member(0), all)
		p.pass(10 * time.Second)
		if looked := looks(p.pass(time.Minute)); looked > 0 {
			t.Errorf("member %d looked around %d times in a minute", i, looked)
		}
	}
	if lonely == 0 {
		t.Error("no member has few neighbours: the test needs others")
	}
}
