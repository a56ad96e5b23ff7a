package dht

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// suspicion passes a member over as a hop and as a keeper of locations. It
// costs nobody anything but a detour: any sign of life ends it, and only the
// master's own pings take a member for dead.
type suspicion struct {
	since time.Time
	until time.Time
	seen  bool // by this pilot itself; told on only then, so that rumours end
}

// maxSuspects bounds the suspicion that travels with a broadcast.
const maxSuspects = 64

// distrust suspects a member that left this pilot without an answer; the
// master looks whether it lives.
func (m *membership) distrust(now time.Time, peer task.PeerID) {
	if peer == m.self.Peer || peer == "" {
		return
	}
	since := now
	if m.isSuspect(now, peer) {
		since = m.suspects[peer].since
	}
	m.suspects[peer] = suspicion{since: since, until: now.Add(m.config.Members.Suspicion), seen: true}
	if m.reigning && m.isListed(peer) {
		m.probe(now, peer)
	}
}

// heardSuspicion takes others' word for half as long as one's own; the master
// looks for itself.
func (m *membership) heardSuspicion(now time.Time, peers []task.PeerID) {
	for _, peer := range peers {
		switch {
		case peer == m.self.Peer || m.isSuspect(now, peer) || len(m.suspects) >= 2*max(len(m.known.sorted), maxSuspects):
		case m.reigning:
			m.distrust(now, peer)
		default:
			m.suspects[peer] = suspicion{since: now, until: now.Add(m.config.Members.Suspicion / 2)}
		}
	}
}

// trust ends a suspicion.
func (m *membership) trust(peer task.PeerID) { delete(m.suspects, peer) }

func (m *membership) isSuspect(now time.Time, peer task.PeerID) bool {
	s, found := m.suspects[peer]
	return found && now.Before(s.until)
}

func (m *membership) unreachable(now time.Time, peer task.PeerID) bool {
	return peer != m.self.Peer && (m.denied[peer] || m.isSuspect(now, peer))
}

// nearest are the members nearest to a key that can be reached: of those in the
// routing table, those that others named, and this pilot itself. A master does not
// stand in for Kademlia by knowing everybody.
func (m *membership) nearest(now time.Time, key Key, n int) []*entry {
	return m.known.nearest(key, n, func(e *entry) bool { return m.passesOver(now, e) })
}

func (m *membership) passesOver(now time.Time, e *entry) bool {
	found := e.routed || now.Before(e.until) || e.member.Peer == m.self.Peer
	return !found || m.unreachable(now, e.member.Peer)
}

// toldSuspects are those that a broadcast brought and those that this pilot
// itself found silent. Suspicions that are over are forgotten.
func (m *membership) toldSuspects(now time.Time, brought []task.PeerID) []task.PeerID {
	told := slices.Clone(brought)
	if len(m.suspects) == 0 {
		return told
	}
	for _, peer := range slices.Sorted(maps.Keys(m.suspects)) {
		switch s := m.suspects[peer]; {
		case !now.Before(s.until):
			delete(m.suspects, peer)
		case s.seen && len(told) < maxSuspects && !slices.Contains(told, peer):
			told = append(told, peer)
		}
	}
	return told
}
