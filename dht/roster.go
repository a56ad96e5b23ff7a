package dht

import (
	"slices"
	"sort"

	"github.com/pilotage-grid/pilotage/task"
)

// Member is a pilot as its site knows it.
type Member struct {
	Peer      task.PeerID
	Pilot     task.PilotID
	Addresses []string // libp2p multiaddresses
	DataURL   string   // of its data server
}

// RosterVersion orders a site's rosters: by the master's term, then by a
// counter of that master.
type RosterVersion struct {
	Term task.Term
	N    uint64
}

// RosterDelta brings a roster from one version to a later one of the same
// term. A delta with From 0 is a snapshot: it replaces what was there.
type RosterDelta struct {
	Term   task.Term
	From   uint64
	To     uint64
	Add    []Member
	Remove []task.PeerID
}

// Roster is a list of members in the order of their Kademlia ids.
type Roster struct {
	version RosterVersion
	sorted  []entry
	place   map[task.PeerID]Key
}

type entry struct {
	key    Key
	member Member
}

// Version of the roster.
func (r *Roster) Version() RosterVersion { return r.version }

// Len is the number of members.
func (r *Roster) Len() int { return len(r.sorted) }

// Get returns a member.
func (r *Roster) Get(peer task.PeerID) (Member, bool) {
	key, ok := r.place[peer]
	if !ok {
		return Member{}, false
	}
	i := r.search(key)
	return r.sorted[i].member, true
}

// Members returns all members in the order of their ids.
func (r *Roster) Members() []Member {
	members := make([]Member, len(r.sorted))
	for i, e := range r.sorted {
		members[i] = e.member
	}
	return members
}

// Put adds or replaces a member and tells whether anything changed.
func (r *Roster) Put(m Member) bool {
	if r.place == nil {
		r.place = make(map[task.PeerID]Key)
	}
	key, known := r.place[m.Peer]
	if !known {
		key = KeyOfPeer(m.Peer)
		r.place[m.Peer] = key
		r.sorted = slices.Insert(r.sorted, r.search(key), entry{key, m})
		return true
	}
	i := r.search(key)
	old := r.sorted[i].member
	if old.Pilot == m.Pilot && old.DataURL == m.DataURL && slices.Equal(old.Addresses, m.Addresses) {
		return false
	}
	r.sorted[i].member = m
	return true
}

// Drop removes a member and tells whether it was there.
func (r *Roster) Drop(peer task.PeerID) bool {
	key, known := r.place[peer]
	if !known {
		return false
	}
	delete(r.place, peer)
	i := r.search(key)
	r.sorted = slices.Delete(r.sorted, i, i+1)
	return true
}

// Apply brings the roster to the delta's version. It returns false when the
// delta does not build on what is there: the caller asks for a snapshot.
func (r *Roster) Apply(d RosterDelta) bool {
	current := r.version
	switch {
	case d.Term.Less(current.Term), d.Term == current.Term && d.To <= current.N:
		return true // old news
	case d.From == 0:
		r.sorted, r.place = nil, nil
	case d.Term != current.Term || current.N < d.From:
		return false
	}
	for _, peer := range d.Remove {
		r.Drop(peer)
	}
	for _, m := range d.Add {
		r.Put(m)
	}
	r.version = RosterVersion{d.Term, d.To}
	return true
}

// Snapshot is a delta that replaces any other roster.
func (r *Roster) Snapshot() RosterDelta {
	return RosterDelta{Term: r.version.Term, To: r.version.N, Add: r.Members()}
}

// within returns the members of a range, in order.
func (r *Roster) within(space Range) []entry {
	first := r.search(space.First)
	last := sort.Search(len(r.sorted), func(i int) bool { return space.Last.Less(r.sorted[i].key) })
	if last <= first {
		return nil
	}
	return r.sorted[first:last]
}

// Nearest returns up to n members by XOR distance to a key, nearest first,
// without those that skip names.
func (r *Roster) Nearest(key Key, n int, skip func(task.PeerID) bool) []Member {
	best := make([]entry, 0, n+1)
	for _, e := range r.sorted {
		if len(best) == n && !key.Closer(e.key, best[n-1].key) {
			continue
		}
		if skip != nil && skip(e.member.Peer) {
			continue
		}
		i := sort.Search(len(best), func(i int) bool { return key.Closer(e.key, best[i].key) })
		best = slices.Insert(best, i, e)
		if len(best) > n {
			best = best[:n]
		}
	}
	members := make([]Member, len(best))
	for i, e := range best {
		members[i] = e.member
	}
	return members
}

func (r *Roster) search(key Key) int {
	return sort.Search(len(r.sorted), func(i int) bool { return !r.sorted[i].key.Less(key) })
}
