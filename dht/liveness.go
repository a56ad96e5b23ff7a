package dht

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// probe is the master's look at a member that has fallen silent.
type probe struct {
	pings int // sent
	next  time.Time
}

// probe begins to ping a member.
func (m *membership) probe(now time.Time, peer task.PeerID) {
	if m.probes[peer] == nil {
		m.probes[peer] = &probe{next: now}
	}
}

// passProbes pings those who are silent, and returns those who never answered.
func (m *membership) passProbes(s *step) (dead []task.PeerID) {
	if len(m.probes) == 0 {
		return nil
	}
	for _, peer := range slices.Sorted(maps.Keys(m.probes)) {
		switch p := m.probes[peer]; {
		case s.now.Before(p.next):
		case p.pings == m.config.Members.Pings:
			delete(m.probes, peer)
			dead = append(dead, peer)
		default:
			p.pings++
			p.next = s.now.Add(m.config.Members.Ping)
			s.send(peer, Ping{})
		}
	}
	return dead
}

// lost is a member that the master takes for dead without having heard a
// goodbye. It may live on the other side of a partition, perhaps under a
// master of its own: then a word after the partition has healed brings both
// parts together.
type lost struct {
	member Member
	since  time.Time
}

const (
	// mostLost bounds the lost members that are remembered: one that answers
	// is enough, it knows its own part of the site.
	mostLost = 64
	// lostFor is how long they are remembered.
	lostFor = 30 * time.Minute
	// lostAtOnce is how many are tried at each roll call, whose tries go to
	// dead hosts for the most part.
	lostAtOnce = 2
)

func (m *membership) lose(now time.Time, other Member) {
	m.forgetLost(other.Peer)
	m.lost = append(m.lost, lost{other, now})
	if extra := len(m.lost) - mostLost; extra > 0 {
		m.lost = slices.Delete(m.lost, 0, extra)
	}
}

func (m *membership) forgetLost(peer task.PeerID) {
	m.lost = slices.DeleteFunc(m.lost, func(l lost) bool { return l.member.Peer == peer })
}

func (m *membership) isLost(peer task.PeerID) bool {
	return slices.ContainsFunc(m.lost, func(l lost) bool { return l.member.Peer == peer })
}

// seekLost dials some of the lost, in turn.
func (m *membership) seekLost(s *step) {
	m.lost = slices.DeleteFunc(m.lost, func(l lost) bool { return s.now.Sub(l.since) > lostFor || m.denied[l.member.Peer] })
	for range min(lostAtOnce, len(m.lost)) {
		next := m.lost[0]
		m.lost = append(m.lost[1:], next)
		s.act(Dial{Member: next.member, Afresh: true})
	}
}
