package dht

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// divide splits a broadcast's space into at most Fanout regions, each with at
// least one known member that has not got it yet; together they are the whole
// space, so members not known here are covered by whoever knows them.
func (b *broadcast) divide(m *membership, message Cast) []Range {
	within := m.known.within(message.Space)
	keys := make([]Key, 0, len(within))
	for _, e := range within {
		if mayCover(m, e, message) {
			keys = append(keys, e.key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return split(message.Space, keys, b.config.Broadcast.Fanout)
}

// split divides regions, the fullest first, at the first bit in which the ids of
// those known there differ. Somebody is then known in both parts, and knows in turn
// somebody in every part of its region where anybody is: a boundary never cuts
// what one bucket of a contact's routing table stands for (docs/overlay.md).
func split(space Range, keys []Key, most int) []Range {
	type part struct {
		Range
		keys []Key
	}
	parts := []part{{space, keys}}
	for len(parts) < most {
		fullest := 0
		for i, p := range parts {
			if len(p.keys) > len(parts[fullest].keys) {
				fullest = i
			}
		}
		p := parts[fullest]
		if len(p.keys) < 2 {
			break
		}
		middle := Range{p.keys[0], p.keys[len(p.keys)-1]}.middle()
		at := sort.Search(len(p.keys), func(i int) bool { return !p.keys[i].Less(middle) })
		parts[fullest] = part{Range{p.First, middle.previous()}, p.keys[:at]}
		parts = slices.Insert(parts, fullest+1, part{Range{middle, p.Last}, p.keys[at:]})
	}
	regions := make([]Range, len(parts))
	for i, p := range parts {
		regions[i] = p.Range
	}
	return regions
}

// forward gives a region to its next contact.
func (b *broadcast) forward(s *step, m *membership, d *duty, r *region) {
	contact, found := nextContact(s.now, m, d, r)
	if !found {
		r.given = true
		return
	}
	r.current, r.acked = contact, false
	r.tried = append(r.tried, contact)
	r.next = s.now.Add(b.config.Broadcast.HopAck)
	message, hop := d.message, b.config.Broadcast.ReplyHop
	message.Space, message.Path = r.space, append(slices.Clone(message.Path), m.key.Short())
	message.Budget = max(d.deadline.Sub(s.now)-hop, hop/2)
	if message.Suspect = nil; !d.repairing { // else it is for one member, who gives it to nobody
		message.Suspect = m.toldSuspects(s.now, d.message.Suspect)
	}
	s.send(contact, message)
}

// mayCover tells whether a member may be given a region: not this pilot and
// none of those above it in the tree.
func mayCover(m *membership, e *entry, message Cast) bool {
	return e.member.Peer != m.self.Peer && !m.denied[e.member.Peer] && !slices.Contains(message.Path, e.key.Short())
}

// nextContact picks a member of a region that has not been tried, suspects last.
// All broadcasts of one root take the same tree as long as the members stay the
// same, so that a site's nodes hold few connections open; every treeLife it is
// the next one of treeCount, so that no node bears the load for ever and none
// that fails its region unnoticed keeps it.
func nextContact(now time.Time, m *membership, d *duty, r *region) (task.PeerID, bool) {
	var best, fallback *entry
	for _, candidate := range m.known.within(r.space) {
		chosen := &best
		if m.isSuspect(now, candidate.member.Peer) {
			chosen = &fallback
		}
		if *chosen != nil && !candidate.key.before(&(*chosen).key, d.tree) {
			continue
		}
		if mayCover(m, candidate, d.message) && !slices.Contains(r.tried, candidate.member.Peer) {
			*chosen = candidate
		}
	}
	if best = cmp.Or(best, fallback); best == nil {
		return "", false
	}
	return best.member.Peer, true
}

const (
	// treeLife is for how many broadcasts of a root its tree stays the same:
	// about a minute of beats.
	treeLife = 64
	// treeCount is how many trees a root takes in turn. Each costs a node two
	// connections on average.
	treeCount = 3
)

// treeSeed is the same number for all broadcasts that take the same tree.
func treeSeed(id CastID) uint64 {
	root := KeyOfPeer(id.Root)
	return root.Short() + id.N/treeLife%treeCount
}

// before orders keys by chance, but always the same way for the same seed. A
// member's place does not depend on who else is there.
func (k *Key) before(other *Key, seed uint64) bool {
	mine, others := scatter(k.Short()^seed), scatter(other.Short()^seed)
	return mine < others || mine == others && k.Less(*other)
}

// scatter mixes a number's bits (the finaliser of SplitMix64; Steele, Lea and
// Flood, OOPSLA 2014).
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
