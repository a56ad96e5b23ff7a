package dht

import (
	"time"

	"github.com/mr-tron/base58"

	"github.com/pilotage-grid/pilotage/task"
)

// neighbourhood is the part of the key space around this pilot in which it knows
// every member. It comes from a lookup of the pilot's own key: whatever is nearer
// than the farthest member that such a lookup returns was returned as well. From
// then on kad-dht's routing table tells who comes and goes there.
type neighbourhood struct {
	bits   int       // that the keys of the neighbourhood share with the own one
	looked time.Time // when the lookup said so; zero: never
	next   time.Time // when to look again
	pause  time.Duration
}

const (
	// lookEvery is how often a pilot looks up its own key in the end. The pause doubles until
	// then: from firstLook on while too few are found, from secondLook on where enough were,
	// as two who look at the same time do not find each other.
	lookEvery  = 2 * time.Minute
	firstLook  = time.Second
	secondLook = lookEvery / 4
	// lookSpread is within what time it looks again after a change of master or of a
	// neighbour.
	lookSpread = 5 * time.Second
	// lookLasts is for how long a lookup counts.
	lookLasts = 5 * time.Minute
	// fewest is how many live members a neighbourhood needs to count as known.
	fewest = 3
	// lookupMost is how many members kad-dht's lookup returns at most.
	lookupMost = 8
)

// target is what to look up to find a peer's neighbours: its key is the digest.
func target(peer task.PeerID) string {
	raw, err := base58.Decode(string(peer))
	if err != nil {
		return string(peer)
	}
	return string(raw)
}

// lookSoon has the pilot look around again where many may have come or gone: within
// some seconds, not all pilots at once.
func (m *membership) lookSoon(now time.Time) {
	soon := now.Add(time.Duration(m.key.Short() % uint64(lookSpread)))
	if m.own.looked.IsZero() || m.own.next.Before(soon) {
		return
	}
	m.own.next, m.own.pause = soon, 0
}

// lookAround looks up the own key when it is time to.
func (m *membership) lookAround(s *step) {
	n := &m.own
	if s.now.Before(n.next) {
		return
	}
	n.pause = min(max(firstLook, 2*n.pause), lookEvery)
	n.next = s.now.Add(n.pause)
	s.act(Lookup{Target: target(m.self.Peer)})
}

// lookedAround takes the answer. One that was cut names members, but maybe not the
// nearest.
func (m *membership) lookedAround(now time.Time, e LookedUp) {
	n := &m.own
	m.learn(now, e.Members)
	if len(e.Members) == 0 || e.Cut {
		return
	}
	bits := len(m.key) * 8
	for _, other := range e.Members {
		bits = min(bits, m.key.Common(KeyOfPeer(other.Peer)))
	}
	n.bits, n.looked = bits+1, now
	if m.settle(now) || len(e.Members) >= lookupMost {
		n.pause = max(n.pause, secondLook)
		n.next = now.Add(n.pause*3/4 + time.Duration(m.key.Short()%uint64(n.pause/2))) // not all pilots at once
	}
}

// settle tells whether the neighbourhood is known, and large enough to say who is nearest to
// a key in it. Who joins is brought to the eight nearest to it, by the lookup of its own key:
// this pilot is one of them as long as no more are in the neighbourhood, which becomes
// smaller before it has more.
func (m *membership) settle(now time.Time) bool {
	if m.own.looked.IsZero() || now.Sub(m.own.looked) > lookLasts {
		return false
	}
	for {
		live := 0 // this pilot among them
		for _, e := range m.known.within(m.key.prefix(m.own.bits)) {
			if !m.passesOver(now, e) {
				live++
			}
		}
		if live <= lookupMost {
			return live >= fewest
		}
		m.own.bits++
	}
}

// sure tells whether those that this pilot knows nearest to a key are the nearest
// that there are.
func (m *membership) sure(now time.Time, key Key) bool {
	return m.key.Common(key) >= m.own.bits && m.settle(now)
}

// near names those nearest to some keys, for somebody who knows fewer there.
func (m *membership) near(now time.Time, asker task.PeerID, files []task.FileKey) (named []Member) {
	seen := map[task.PeerID]bool{asker: true, m.self.Peer: true}
	for _, file := range files {
		for _, e := range m.nearest(now, KeyOfFile(file), m.config.Locations.Replicas) {
			if peer := e.member.Peer; !seen[peer] {
				seen[peer] = true
				named = append(named, e.member)
			}
		}
	}
	return named
}
