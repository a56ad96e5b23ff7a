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

func (m Member) equal(other Member) bool {
	return m.Peer == other.Peer && m.Pilot == other.Pilot && m.DataURL == other.DataURL &&
		slices.Equal(m.Addresses, other.Addresses)
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
	Term task.Term
	From uint64
	To   uint64
	// Base is what From was in an earlier term, whose roster a new master has
	// taken over: who has exactly that needs no snapshot. Zero: nothing was.
	Base   RosterVersion
	Add    []Member
	Remove []task.PeerID

	// entries are those of Add where the delta was made in this process:
	// thousands of overlays in one then share them (8 bytes a member each).
	entries []*entry
}

// Roster is a list of members in the order of their Kademlia ids.
type Roster struct {
	version RosterVersion
	sorted  []*entry
	edits   uint64 // counts changes
}

// entry is immutable: rosters share it.
type entry struct {
	key    Key
	member Member
}

// rosterDiff is what a delta has changed.
type rosterDiff struct {
	added     []*entry
	removed   []task.PeerID
	strangers []task.PeerID // were met, and are not listed by a new roster
}

// Len is the number of members.
func (r *Roster) Len() int { return len(r.sorted) }

// Get returns a member.
func (r *Roster) Get(peer task.PeerID) (Member, bool) {
	if e := r.entry(peer); e != nil {
		return e.member, true
	}
	return Member{}, false
}

func (r *Roster) entry(peer task.PeerID) *entry {
	if len(r.sorted) == 0 {
		return nil
	}
	key := KeyOfPeer(peer)
	if i := r.search(key); r.holds(i, key) {
		return r.sorted[i]
	}
	return nil
}

// Has tells whether a peer is a member.
func (r *Roster) Has(peer task.PeerID) bool {
	_, found := r.Get(peer)
	return found
}

// Members returns all members in the order of their ids.
func (r *Roster) Members() []Member { return membersOf(r.sorted) }

func membersOf(entries []*entry) []Member {
	members := make([]Member, len(entries))
	for i, e := range entries {
		members[i] = e.member
	}
	return members
}

func peersOf(entries []*entry) []task.PeerID {
	peers := make([]task.PeerID, len(entries))
	for i, e := range entries {
		peers[i] = e.member.Peer
	}
	return peers
}

// Put adds or replaces a member and tells whether anything changed.
func (r *Roster) Put(m Member) bool {
	e := &entry{KeyOfPeer(m.Peer), m}
	changed, _ := r.put(e)
	return changed
}

func (r *Roster) put(e *entry) (changed, added bool) {
	i := r.search(e.key)
	if !r.holds(i, e.key) {
		r.sorted = slices.Insert(r.sorted, i, e)
		r.edits++
		return true, true
	}
	if r.sorted[i] == e || r.sorted[i].member.equal(e.member) {
		return false, false
	}
	r.sorted[i] = e
	r.edits++
	return true, false
}

// drop removes a member and returns what was there.
func (r *Roster) drop(peer task.PeerID) *entry {
	e := r.entry(peer)
	if e != nil {
		i := r.search(e.key)
		r.sorted = slices.Delete(r.sorted, i, i+1)
		r.edits++
	}
	return e
}

// apply brings the roster to the delta's version. It fails when the delta does
// not build on what is there: the caller asks for a snapshot.
func (r *Roster) apply(d RosterDelta) (diff rosterDiff, fits bool) {
	current, remove := r.version, d.Remove
	switch {
	case d.Term.Less(current.Term), d.Term == current.Term && d.To <= current.N:
		return rosterDiff{}, true // old news
	case d.From == 0:
		remove = r.without(d.Add)
	case !d.buildsOn(current):
		return rosterDiff{}, false
	}
	for _, peer := range remove {
		if r.drop(peer) != nil {
			diff.removed = append(diff.removed, peer)
		}
	}
	for _, e := range d.entriesOfAdd() {
		if _, added := r.put(e); added {
			diff.added = append(diff.added, e)
		}
	}
	r.version = RosterVersion{d.Term, d.To}
	return diff, true
}

// buildsOn tells whether a delta leads on from a version. Changes of one term may
// be made twice; of another term the version has to be the very one.
func (d RosterDelta) buildsOn(v RosterVersion) bool {
	return d.Term == v.Term && d.From <= v.N || d.From == firstVersion && d.Base.N > 0 && d.Base == v
}

// without lists those who are not among some members.
func (r *Roster) without(members []Member) (peers []task.PeerID) {
	among := make(map[task.PeerID]bool, len(members))
	for _, m := range members {
		among[m.Peer] = true
	}
	for _, e := range r.sorted {
		if !among[e.member.Peer] {
			peers = append(peers, e.member.Peer)
		}
	}
	return peers
}

func (d RosterDelta) entriesOfAdd() []*entry {
	if len(d.entries) == len(d.Add) {
		return d.entries
	}
	entries := make([]*entry, len(d.Add))
	for i, m := range d.Add {
		entries[i] = &entry{KeyOfPeer(m.Peer), m}
	}
	return entries
}

// Snapshot is a delta that replaces any other roster.
func (r *Roster) Snapshot() RosterDelta {
	return RosterDelta{Term: r.version.Term, To: r.version.N, Add: r.Members(), entries: slices.Clone(r.sorted)}
}

// merged is a roster of the members of two.
func (r *Roster) merged(other *Roster) *Roster {
	all := &Roster{sorted: make([]*entry, 0, len(r.sorted)+len(other.sorted))}
	all.sorted = append(append(all.sorted, r.sorted...), other.sorted...)
	slices.SortStableFunc(all.sorted, func(a, b *entry) int { return a.key.Compare(b.key) })
	all.sorted = slices.CompactFunc(all.sorted, func(a, b *entry) bool { return a.key == b.key })
	return all
}

// within returns the members of a range, in order.
func (r *Roster) within(space Range) []*entry {
	first := r.search(space.First)
	last := sort.Search(len(r.sorted), func(i int) bool { return space.Last.Less(r.sorted[i].key) })
	if last <= first {
		return nil
	}
	return r.sorted[first:last]
}

// nearest returns up to n members by XOR distance to a key, nearest first,
// without those that skip names. It walks the binary tree of the ids, which the
// sorted list is, always first into the half that shares the key's next bit: the
// order of the XOR distance. Skip sees only members that are nearer than the last one returned.
func (r *Roster) nearest(key Key, n int, skip func(task.PeerID) bool) []*entry {
	found := make([]*entry, 0, n)
	var walk func(part []*entry, bit int)
	walk = func(part []*entry, bit int) {
		switch {
		case len(part) == 0 || len(found) == n:
			return
		case len(part) == 1 || bit == len(key)*8:
			if skip == nil || !skip(part[0].member.Peer) {
				found = append(found, part[0])
			}
			return
		}
		near, far := split(part, key, bit)
		walk(near, bit+1)
		walk(far, bit+1)
	}
	walk(r.sorted, 0)
	return found
}

// split divides members whose ids agree in the bits before into those that share
// the key's next bit and the others.
func split(part []*entry, key Key, bit int) (near, far []*entry) {
	half := sort.Search(len(part), func(i int) bool { return part[i].key.bit(bit) })
	if key.bit(bit) {
		return part[half:], part[:half]
	}
	return part[:half], part[half:]
}

// routes returns up to n members of every part of the key space that a Kademlia
// node at a key has a bucket for: those whose ids share so many of its first
// bits and no more. Every key begins at another member of a part.
func (r *Roster) routes(key Key, n int) []Member {
	var members []Member
	part := r.sorted
	for bit := 0; len(part) > 0 && bit < len(key)*8; bit++ {
		near, far := split(part, key, bit)
		for i := range min(n, len(far)) {
			first := int(scatter(key.Short()+uint64(bit)) % uint64(len(far)))
			members = append(members, far[(first+i)%len(far)].member)
		}
		part = near
		if len(part) == 1 && part[0].key == key {
			break
		}
	}
	return members
}

func (r *Roster) search(key Key) int {
	return sort.Search(len(r.sorted), func(i int) bool { return !r.sorted[i].key.Less(key) })
}

// lists tells whether an entry of another roster is a member of this one.
func (r *Roster) lists(e *entry) bool { return r.holds(r.search(e.key), e.key) }

func (r *Roster) holds(i int, key Key) bool { return i < len(r.sorted) && r.sorted[i].key == key }
