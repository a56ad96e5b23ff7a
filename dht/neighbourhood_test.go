package dht_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// Who joins is brought to the eight nearest to it: a pilot whose site grows knows who is
// near without looking around again, and tells all three keepers of a file at once.
func TestANeighbourhoodThatGrowsNeedsNoLookup(t *testing.T) {
	few, all := number(0, 20), number(0, 200)
	for i := 1; i < 10; i++ {
		p := worker(t, member(i), member(0), few)
		p.pass(2 * time.Minute) // from now on it looks around seldom
		looked := 0
		for _, newcomer := range all[20:] {
			looked += looks(p.step(dht.Routed{Member: newcomer}))
		}
		p.site = all
		if looked += looks(p.pass(30 * time.Second)); looked > 0 {
			t.Errorf("member %d looked around %d times as others joined", i, looked)
		}
		f, _ := fileNear(t, all, 4, 5, func(near []task.PeerID) bool { // all of one neighbourhood
			return near[0] == p.self.Peer && dht.KeyOfPeer(near[0]).Common(dht.KeyOfPeer(near[3])) >= 5
		})
		p.step(dht.Announce{Files: []task.FileKey{f}})
		if told := sent[dht.Put](p.pass(10 * time.Millisecond)); len(told) != 2 {
			t.Errorf("member %d told %d others of a file at first, want 2", i, len(told))
		}
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

// Where a lookup returns as many as it can, it tells no more when it is done again: a pilot
// that has few near by waits for them as others do. All do it once more soon, and then seldom:
// two who look at the same time do not find each other.
func TestFewNeighboursAreNotLookedForEverySecond(t *testing.T) {
	all, lonely := number(0, 200), 0
	for i := 1; i < 200; i++ {
		self := member(i)
		key, others := dht.KeyOfPeer(self.Peer), slices.DeleteFunc(slices.Clone(all), func(m dht.Member) bool { return m.Peer == self.Peer })
		near := nearest(others, task.FileKey(self.Peer), 8) // whose key is the same
		if key.Common(dht.KeyOfPeer(near[1])) > key.Common(dht.KeyOfPeer(near[7])) {
			continue // two others at least are in its neighbourhood
		}
		lonely++
		p := worker(t, self, member(0), all)
		p.pass(10 * time.Second)
		if looked := looks(p.pass(45 * time.Second)); looked != 1 {
			t.Errorf("member %d looked around %d times after its first look, want once", i, looked)
		}
	}
	if lonely == 0 {
		t.Error("no member has few neighbours: the test needs others")
	}
}
