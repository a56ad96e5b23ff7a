package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// membership is the part that knows members of the site: those in kad-dht's
// routing table, the master, and for a while whoever others named. Only the master
// knows all, by their own word. The other parts ask it whom to turn to; it asks
// none of them.
type membership struct {
	config   Config
	self     Member
	key      Key
	known    memberList
	master   task.PeerID
	denied   map[task.PeerID]bool
	suspects map[task.PeerID]suspicion
	stale    time.Time // when the first that was only named is to be forgotten
	own      neighbourhood

	reigning bool // this pilot is master, and what follows is its own
	probes   map[task.PeerID]*probe
	lost     []lost
	gone     []departed
}

// departed is a member that died or left: the beats say so for a while.
type departed struct {
	peer  task.PeerID
	until time.Time
}

const (
	// namedFor is how long it counts that somebody named a member.
	namedFor = time.Minute
	// goneBeats is in how many beats the master says that a member is gone, mostGone
	// how many members one beat names.
	goneBeats = 5
	mostGone  = 64
)

func (m *membership) init(config Config) {
	m.config = config
	m.denied = make(map[task.PeerID]bool)
	m.suspects = make(map[task.PeerID]suspicion)
	m.probes = make(map[task.PeerID]*probe)
}

func (m *membership) join(self Member) {
	m.self, m.key = self, KeyOfPeer(self.Peer)
	m.known.put(self).listed = true
}

// mayBe tells whether somebody can be a member.
func (m *membership) mayBe(peer task.PeerID) bool { return peer != "" && !m.denied[peer] }

// route notes whom kad-dht has taken into its routing table.
func (m *membership) route(other Member) *entry {
	if !m.mayBe(other.Peer) {
		return nil
	}
	e := m.known.put(other)
	e.routed = true
	return e
}

// unroute notes whom kad-dht has taken out, and tells whether it was known.
func (m *membership) unroute(now time.Time, peer task.PeerID) bool {
	e := m.known.entry(peer)
	if e == nil || !e.routed {
		return false
	}
	e.routed = false
	m.release(now, e)
	return true
}

// learn notes members that somebody named, for a while.
func (m *membership) learn(now time.Time, named []Member) {
	for _, other := range named {
		if m.mayBe(other.Peer) && other.Peer != m.self.Peer {
			e := m.known.put(other)
			e.until = now.Add(namedFor)
			m.stale = earlier(m.stale, e.until)
		}
	}
}

// release forgets a member that there is no reason to remember.
func (m *membership) release(now time.Time, e *entry) {
	if !e.routed && !e.listed && !now.Before(e.until) && e.member.Peer != m.master {
		m.known.drop(e.member.Peer)
	}
}

// forgetNamed forgets those that were named long ago.
func (m *membership) forgetNamed(now time.Time) {
	if m.stale.IsZero() || now.Before(m.stale) {
		return
	}
	m.stale = time.Time{}
	for _, e := range slices.Clone(m.known.sorted) {
		if now.Before(e.until) {
			m.stale = earlier(m.stale, e.until)
		}
		m.release(now, e)
	}
}

// deny sets who is not to be a member any more.
func (m *membership) deny(peers []task.PeerID) {
	clear(m.denied)
	for _, peer := range peers {
		m.denied[peer] = true
	}
}

// member finds a member by peer id.
func (m *membership) member(peer task.PeerID) (Member, bool) {
	if e := m.known.entry(peer); e != nil {
		return e.member, true
	}
	return Member{}, false
}

// listed are the members that this master knows by their own word.
func (m *membership) listed() (entries []*entry) {
	for _, e := range m.known.sorted {
		if e.listed {
			entries = append(entries, e)
		}
	}
	return entries
}

func (m *membership) isListed(peer task.PeerID) bool {
	e := m.known.entry(peer)
	return e != nil && e.listed
}

// follow notes the master. What this pilot knew as master itself is void.
func (m *membership) follow(now time.Time, master Member) {
	before := m.master
	m.master = master.Peer
	m.lookSoon(now)
	m.known.put(master)
	if e := m.known.entry(before); e != nil {
		m.release(now, e)
	}
	if !m.reigning {
		return
	}
	m.reigning, m.lost, m.gone = false, nil, nil
	clear(m.probes)
	for _, e := range m.listed() {
		if e.listed = e.member.Peer == m.self.Peer; !e.listed {
			m.release(now, e)
		}
	}
}

// takeOver lists those that this new master knows already, but for those that the
// election found dead: they are returned.
func (m *membership) takeOver(now time.Time, dead map[task.PeerID]bool) (up, passed []Member) {
	m.reigning, m.master = true, m.self.Peer
	m.lookSoon(now)
	for _, e := range slices.Clone(m.known.sorted) {
		switch peer := e.member.Peer; {
		case peer == m.self.Peer || m.denied[peer] || e.member.Pilot == "": // who is not known by name introduces itself
		case dead[peer]:
			passed = append(passed, e.member)
			m.lose(now, e.member)
		case !e.listed:
			e.listed = true
			up = append(up, e.member)
		}
	}
	return up, passed
}

// enlist lists a member by its own word and tells whether it is new.
func (m *membership) enlist(other Member) bool {
	m.forgetLost(other.Peer)
	m.returned(other.Peer)
	e := m.known.put(other)
	added := !e.listed
	e.listed = true
	return added
}

// forget removes what was known of a peer that is gone.
func (m *membership) forget(peer task.PeerID) {
	m.known.drop(peer)
	delete(m.probes, peer)
	delete(m.suspects, peer)
}

// depart has the next beats say that a member is gone.
func (m *membership) depart(now time.Time, peer task.PeerID) {
	if slices.ContainsFunc(m.gone, func(d departed) bool { return d.peer == peer }) {
		return
	}
	m.gone = append(m.gone, departed{peer, now.Add(goneBeats * m.config.Beat)})
	m.gone = m.gone[max(0, len(m.gone)-mostGone):]
}

// returned has the beats say no more that a member is gone.
func (m *membership) returned(peer task.PeerID) {
	m.gone = slices.DeleteFunc(m.gone, func(d departed) bool { return d.peer == peer })
}

// departures are those that a beat names.
func (m *membership) departures(now time.Time) (peers []task.PeerID) {
	m.gone = slices.DeleteFunc(m.gone, func(d departed) bool { return !now.Before(d.until) })
	for _, d := range m.gone {
		peers = append(peers, d.peer)
	}
	return peers
}
