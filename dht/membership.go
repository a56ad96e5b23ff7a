package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// membership is the part that knows who belongs to the site, and whom not to
// count on at the moment. The other parts ask it whom to turn to; it asks none
// of them.
type membership struct {
	config   Config
	self     Member
	key      Key
	roster   Roster // as the master publishes it
	contacts Roster // known otherwise: from the queue, from the Kademlia network
	together union  // of both
	denied   map[task.PeerID]bool
	suspects map[task.PeerID]suspicion
	byes     []*entry // said goodbye, and are listed by the master still
	wish     wish

	term     task.Term // in force
	reigning bool      // this pilot is master, and what follows is its own
	register register
	probes   map[task.PeerID]*probe
	lost     []lost
}

// wish is for a snapshot of the roster.
type wish struct {
	at    time.Time // of the last one; zero: it was fulfilled
	count int
}

func (m *membership) init(config Config) {
	m.config = config
	m.denied = make(map[task.PeerID]bool)
	m.suspects = make(map[task.PeerID]suspicion)
	m.probes = make(map[task.PeerID]*probe)
}

func (m *membership) join(self Member) {
	m.self, m.key = self, KeyOfPeer(self.Peer)
	m.contacts.Put(self)
}

// met notes a member that was heard of.
func (m *membership) met(other Member) {
	if other.Peer != "" && !m.denied[other.Peer] {
		m.contacts.Put(other)
	}
}

// deny sets who is not to be a member any more.
func (m *membership) deny(peers []task.PeerID) {
	clear(m.denied)
	for _, peer := range peers {
		m.denied[peer] = true
		m.contacts.drop(peer)
	}
}

// member finds a member by peer id, on the roster or among the contacts.
func (m *membership) member(peer task.PeerID) (Member, bool) {
	if peer == m.self.Peer {
		return m.self, true
	}
	if other, ok := m.roster.Get(peer); ok {
		return other, true
	}
	return m.contacts.Get(peer)
}

// known is the member list that decisions are made on: the master's roster.
// Where that is missing, or of another term than the one in force, it is
// taken together with whoever else was met: a broadcast then divides a region
// only where somebody is known in both halves (FACTS, Broadcast).
func (m *membership) known() *Roster {
	if m.current() {
		return &m.roster
	}
	return m.together.of(&m.roster, &m.contacts)
}

// current tells whether the roster is that of the master in office, and so
// lists everybody.
func (m *membership) current() bool { return m.roster.Len() > 1 && m.roster.version.Term == m.term }

// union keeps the members of two rosters together until one of them changes.
type union struct {
	all  *Roster
	a, b uint64 // their edits
}

func (u *union) of(a, b *Roster) *Roster {
	if u.all == nil || u.a != a.edits || u.b != b.edits {
		u.all, u.a, u.b = a.merged(b), a.edits, b.edits
	}
	return u.all
}

// serve follows another master. What this pilot kept as master itself is void.
func (m *membership) serve(term task.Term, master Member) {
	m.term = term
	if m.reigning {
		m.reigning, m.register, m.lost = false, register{}, nil
		clear(m.probes)
	}
	m.met(master)
}

// wantRoster asks for a snapshot: whoever sent a delta that does not fit, or
// the master; in turn, and not again before an answer can be there.
func (m *membership) wantRoster(s *step, from, master task.PeerID) {
	if !m.wish.at.IsZero() && s.now.Sub(m.wish.at) < m.config.Beat/2 {
		return
	}
	m.wish.at = s.now
	m.wish.count++
	if m.wish.count%2 == 0 {
		from = master
	}
	s.send(from, RosterWanted{})
}

// apply brings the roster up to date and tells who came and went; nil if nobody
// did, as where the delta does not fit.
func (m *membership) apply(delta RosterDelta) (diff *rosterDiff, fits bool) {
	before := m.roster.version
	changes, fits := m.roster.apply(delta)
	if !fits || m.roster.version == before {
		return nil, fits
	}
	m.wish.at = time.Time{}
	m.keepByes(delta, &changes)
	changes.removed = slices.DeleteFunc(changes.removed, func(peer task.PeerID) bool { return peer == m.self.Peer })
	if delta.From == 0 || delta.Term != before.Term {
		changes.strangers = m.strangers()
	}
	return &changes, true
}

// keepByes leaves out those whose goodbye was heard, until the master leaves them
// out or takes them in again. A snapshot that lists them is older than that.
func (m *membership) keepByes(delta RosterDelta, diff *rosterDiff) {
	if len(m.byes) == 0 {
		return // as nearly always: a diff may have every member
	}
	m.byes = slices.DeleteFunc(m.byes, func(e *entry) bool {
		listed, whole := m.roster.lists(e), delta.From == 0
		if listed && whole {
			m.roster.drop(e.member.Peer)
			return false
		}
		return listed || whole || slices.Contains(delta.Remove, e.member.Peer)
	})
	diff.added = slices.DeleteFunc(diff.added, func(e *entry) bool { return !m.roster.lists(e) })
}

// published is the roster as its master published it: with those whose goodbye this
// member has heard.
func (m *membership) published() RosterDelta {
	roster := Roster{version: m.roster.version, sorted: slices.Clone(m.roster.sorted)}
	for _, e := range m.byes {
		roster.put(e)
	}
	return roster.Snapshot()
}

// strangers were met and are not on the roster: they are gone, or about to be
// listed.
func (m *membership) strangers() (peers []task.PeerID) {
	for _, e := range m.contacts.sorted {
		if peer := e.member.Peer; peer != m.self.Peer && !m.roster.lists(e) {
			peers = append(peers, peer)
		}
	}
	return peers
}

// forget removes what was known of a peer that is gone, all but its place on
// the roster.
func (m *membership) forget(peer task.PeerID) {
	m.contacts.drop(peer)
	delete(m.probes, peer)
	delete(m.suspects, peer)
}

// bye takes a member out that says goodbye to this pilot.
func (m *membership) bye(peer task.PeerID) {
	if e := m.roster.drop(peer); e != nil {
		m.byes = append(m.byes, e)
	}
}
