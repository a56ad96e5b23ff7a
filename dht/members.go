package dht

import (
	"slices"
	"sort"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Member is a pilot as its site knows it.
type Member struct {
	Peer      task.PeerID
	Pilot     task.PilotID // "": not known yet
	Addresses []string     // libp2p multiaddresses
	DataURL   string       // of its data server; "": not known
}

// completed is what is known of a member, where newer says more.
func (m Member) completed(newer Member) Member {
	if newer.Pilot != "" {
		m.Pilot = newer.Pilot
	}
	if len(newer.Addresses) > 0 {
		m.Addresses = newer.Addresses
	}
	if newer.DataURL != "" {
		m.DataURL = newer.DataURL
	}
	return m
}

// entry is a member that this pilot knows, and why it remembers it.
type entry struct {
	key    Key
	member Member
	routed bool      // kad-dht has it in its routing table
	listed bool      // it introduced itself to this pilot, its master
	until  time.Time // somebody named it, which counts until then
}

// memberList lists members in the order of their Kademlia ids. Their peer ids are not
// hashed to find them: that is done with every message.
type memberList struct {
	sorted []*entry
	byPeer map[task.PeerID]*entry
}

func (l *memberList) search(key Key) int {
	return sort.Search(len(l.sorted), func(i int) bool { return !l.sorted[i].key.Less(key) })
}

// entry finds a member; nil: it is not known.
func (l *memberList) entry(peer task.PeerID) *entry { return l.byPeer[peer] }

// put finds a member or adds it, with what is known of it.
func (l *memberList) put(m Member) *entry {
	if known := l.byPeer[m.Peer]; known != nil {
		known.member = known.member.completed(m)
		return known
	}
	if l.byPeer == nil {
		l.byPeer = make(map[task.PeerID]*entry)
	}
	e := &entry{key: KeyOfPeer(m.Peer), member: m}
	l.sorted = slices.Insert(l.sorted, l.search(e.key), e)
	l.byPeer[m.Peer] = e
	return e
}

func (l *memberList) drop(peer task.PeerID) {
	if e := l.byPeer[peer]; e != nil {
		i := l.search(e.key)
		l.sorted = slices.Delete(l.sorted, i, i+1)
		delete(l.byPeer, peer)
	}
}

// within returns the members of a range, in order.
func (l *memberList) within(space Range) []*entry {
	first := l.search(space.First)
	last := sort.Search(len(l.sorted), func(i int) bool { return space.Last.Less(l.sorted[i].key) })
	return l.sorted[first:max(first, last)]
}

// nearest returns up to n members by XOR distance to a key, nearest first,
// without those that skip names. It walks the binary tree of the ids, which the
// sorted list is, always first into the half that shares the key's next bit: the
// order of the XOR distance.
func (l *memberList) nearest(key Key, n int, skip func(*entry) bool) []*entry {
	found := make([]*entry, 0, n)
	var walk func(part []*entry, bit int)
	walk = func(part []*entry, bit int) {
		switch {
		case len(part) == 0 || len(found) == n:
			return
		case len(part) == 1 || bit == len(key)*8:
			if !skip(part[0]) {
				found = append(found, part[0])
			}
			return
		}
		half := sort.Search(len(part), func(i int) bool { return part[i].key.bit(bit) })
		near, far := part[:half], part[half:]
		if key.bit(bit) {
			near, far = far, near
		}
		walk(near, bit+1)
		walk(far, bit+1)
	}
	walk(l.sorted, 0)
	return found
}

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
