package dht

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

func memberNamed(i int) Member {
	return Member{Peer: task.PeerID(fmt.Sprintf("peer-%d", i)), Pilot: task.PilotID(fmt.Sprintf("p-%d", i))}
}

// naive is a roster as a plain map.
type naive struct {
	term    task.Term
	n       uint64
	members map[task.PeerID]Member
}

func (n *naive) apply(d RosterDelta) bool {
	switch {
	case d.Term.Less(n.term) || d.Term == n.term && d.To <= n.n:
		return true
	case d.From == 0:
		n.members = make(map[task.PeerID]Member)
	case d.Base.N > 0 && d.Base.Term == n.term && d.Base.N == n.n:
	case d.Term != n.term || d.From > n.n:
		return false
	}
	for _, peer := range d.Remove {
		delete(n.members, peer)
	}
	for _, m := range d.Add {
		n.members[m.Peer] = m
	}
	n.term, n.n = d.Term, d.To
	return true
}

func TestRosterAppliesDeltasAsAPlainMapDoes(t *testing.T) {
	term := rapid.Custom(func(t *rapid.T) task.Term { return task.Term{Epoch: rapid.Uint64Range(1, 3).Draw(t, "epoch")} })
	deltas := rapid.Custom(func(t *rapid.T) RosterDelta {
		d := RosterDelta{Term: term.Draw(t, "term"), From: rapid.Uint64Range(0, 6).Draw(t, "from")}
		d.To = d.From + rapid.Uint64Range(0, 4).Draw(t, "ahead")
		if d.From == 1 {
			d.Base = RosterVersion{Term: term.Draw(t, "base"), N: rapid.Uint64Range(0, 6).Draw(t, "number")}
		}
		for _, i := range rapid.SliceOfDistinct(rapid.IntRange(0, 12), rapid.ID[int]).Draw(t, "members") {
			m := memberNamed(i)
			if d.From > 0 && rapid.Bool().Draw(t, "remove") {
				d.Remove = append(d.Remove, m.Peer)
				continue
			}
			m.DataURL = rapid.SampledFrom([]string{"", "https://a:1"}).Draw(t, "url")
			d.Add = append(d.Add, m)
		}
		return d
	})
	rapid.Check(t, func(t *rapid.T) {
		roster, model := &Roster{}, &naive{members: make(map[task.PeerID]Member)}
		for _, d := range rapid.SliceOfN(deltas, 1, 30).Draw(t, "deltas") {
			before := roster.Members()
			diff, applied := roster.apply(d)
			if applied != model.apply(d) {
				t.Fatalf("applied: %v; the model says otherwise for %+v", applied, d)
			}
			compareRoster(t, roster, model)
			compareDiff(t, before, roster.Members(), diff)
		}
	})
}

func compareRoster(t *rapid.T, roster *Roster, model *naive) {
	members := roster.Members()
	if len(members) != len(model.members) || roster.Len() != len(members) {
		t.Fatalf("%d members, want %d", len(members), len(model.members))
	}
	if v := roster.version; v.Term != model.term || v.N != model.n {
		t.Fatalf("version %+v, want %v %d", v, model.term, model.n)
	}
	if !slices.IsSortedFunc(members, func(a, b Member) int { return KeyOfPeer(a.Peer).Compare(KeyOfPeer(b.Peer)) }) {
		t.Fatal("not in the order of the Kademlia ids")
	}
	for _, m := range members {
		got, found := roster.Get(m.Peer)
		if want, listed := model.members[m.Peer]; !listed || !found || !got.equal(want) || !m.equal(want) {
			t.Fatalf("member %+v, by id %+v, want %+v", m, got, want)
		}
	}
}

func compareDiff(t *rapid.T, before, after []Member, diff rosterDiff) {
	has := func(list []Member, peer task.PeerID) bool {
		return slices.ContainsFunc(list, func(m Member) bool { return m.Peer == peer })
	}
	var added, removed []task.PeerID
	for _, m := range after {
		if !has(before, m.Peer) {
			added = append(added, m.Peer)
		}
	}
	for _, m := range before {
		if !has(after, m.Peer) {
			removed = append(removed, m.Peer)
		}
	}
	var told []task.PeerID
	for _, e := range diff.added {
		told = append(told, e.member.Peer)
	}
	slices.Sort(told)
	slices.Sort(added)
	slices.Sort(removed)
	slices.Sort(diff.removed)
	if !slices.Equal(told, added) || !slices.Equal(diff.removed, removed) {
		t.Fatalf("told of %v and %v, changed are %v and %v", told, diff.removed, added, removed)
	}
}

func TestSnapshotReplacesEverything(t *testing.T) {
	var a, b Roster
	for i := range 20 {
		a.Put(memberNamed(i))
		b.Put(memberNamed(i + 10))
	}
	a.version = RosterVersion{Term: task.Term{Epoch: 2}, N: 7}
	if b.apply(a.Snapshot()); b.version != a.version {
		t.Fatalf("version %+v", b.version)
	}
	a.drop("peer-3") // a snapshot is a copy
	if b.Len() != 20 || !b.Has("peer-3") || b.Has("peer-25") {
		t.Errorf("%d members", b.Len())
	}
}

func TestNearestAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var roster Roster
		for i := range rapid.IntRange(0, 80).Draw(t, "members") {
			roster.Put(memberNamed(i))
		}
		key := KeyOfFile(task.FileKey(rapid.StringN(1, 8, 8).Draw(t, "file")))
		most := rapid.IntRange(0, 10).Draw(t, "most")
		skipped := rapid.IntRange(1, 5).Draw(t, "skip every")
		skip := func(peer task.PeerID) bool { return int(KeyOfPeer(peer).Short()%5) == skipped }
		want := slices.DeleteFunc(roster.Members(), func(m Member) bool { return skip(m.Peer) })
		slices.SortFunc(want, func(a, b Member) int {
			if key.Closer(KeyOfPeer(a.Peer), KeyOfPeer(b.Peer)) {
				return -1
			}
			return 1
		})
		want = want[:min(most, len(want))]
		got := membersOf(roster.nearest(key, most, skip))
		if !slices.EqualFunc(got, want, Member.equal) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// Every bucket of a Kademlia node is filled as far as there are members for it.
func TestRoutesFillEveryBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var roster Roster
		count, most := rapid.IntRange(1, 60).Draw(t, "members"), rapid.IntRange(1, 5).Draw(t, "of a bucket")
		for i := range count {
			roster.Put(memberNamed(i))
		}
		self := KeyOfPeer(memberNamed(rapid.IntRange(0, 70).Draw(t, "self")).Peer)
		bucket := func(m Member) (shared int) {
			for key := KeyOfPeer(m.Peer); shared < len(key)*8 && key.bit(shared) == self.bit(shared); {
				shared++
			}
			return shared
		}
		there, taken, seen := map[int]int{}, map[int]int{}, map[task.PeerID]bool{}
		for _, m := range roster.Members() {
			if KeyOfPeer(m.Peer) != self {
				there[bucket(m)]++
			}
		}
		for _, m := range roster.routes(self, most) {
			taken[bucket(m)]++
			if seen[m.Peer] {
				t.Fatalf("%s twice", m.Peer)
			}
			seen[m.Peer] = true
		}
		for b, n := range there {
			if taken[b] != min(n, most) {
				t.Fatalf("bucket %d: %d members of %d, at most %d", b, taken[b], n, most)
			}
		}
		if len(taken) > len(there) {
			t.Fatalf("buckets %v, there are %v", taken, there)
		}
	})
}
