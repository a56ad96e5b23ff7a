package dht

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// hello puts a member on the roster, or says who is master.
func (o *Overlay) hello(from task.PeerID, h Hello) {
	s, m := &o.step, &o.members
	if h.Member.Peer != from || o.leaving {
		return
	}
	m.met(h.Member)
	if !o.election.inOffice() {
		if o.election.phase == following {
			o.election.tell(s, from)
		}
		return
	}
	e := &entry{KeyOfPeer(from), h.Member}
	if added := m.enlist(s.now, e); !added {
		s.send(from, Welcome{Master: m.self, Roster: m.recent(s.now)})
		return
	}
	o.locations.added(s.now, []*entry{e})
	m.welcomeSoon(from)
	s.act(MemberUp{Member: h.Member})
}

// unlisted answers a sign of life from somebody who is not on this master's
// roster: it was dropped by mistake and may introduce itself again.
func (o *Overlay) unlisted(from task.PeerID) {
	if o.election.inOffice() && !o.leaving && !o.members.roster.Has(from) {
		o.election.tell(&o.step, from)
	}
}

// rosterWanted answers with a snapshot, if this member has what is in force.
func (o *Overlay) rosterWanted(from task.PeerID) {
	m := &o.members
	switch {
	case o.leaving:
	case o.election.inOffice():
		m.welcomeSoon(from)
	case m.roster.version.Term == o.election.term:
		o.step.send(from, Welcome{Master: o.election.master, Roster: m.published()})
	}
}

// welcome takes the master's roster, or a snapshot that was asked for.
func (o *Overlay) welcome(from task.PeerID, w Welcome) {
	office := Office{w.Roster.Term, w.Master}
	if office.Term.Less(o.election.term) || o.election.inOffice() && office.Term == o.election.term {
		return
	}
	if from == w.Master.Peer {
		o.heardMaster(from, office, true)
	} else {
		o.heardOffice(from, office)
	}
	if office.Term == o.election.term {
		o.applyRoster(from, w.Roster, true)
	}
}

// applyRoster brings the roster up to date and draws the consequences. When
// the delta does not fit and complete is set, a snapshot is asked for.
func (o *Overlay) applyRoster(from task.PeerID, delta RosterDelta, complete bool) {
	s, m := &o.step, &o.members
	if o.election.inOffice() || delta.Term.Less(m.roster.version.Term) {
		return
	}
	diff, fits := m.apply(delta)
	if !fits && complete {
		m.wantRoster(s, from, o.election.master.Peer)
	}
	if diff == nil {
		return
	}
	for _, peer := range diff.removed {
		o.gone(peer)
	}
	for _, peer := range diff.strangers {
		o.locations.away(s.now, peer)
	}
	if !m.roster.Has(m.self.Peer) && !o.leaving {
		o.election.introduceAgain(s, m.self)
	}
	o.locations.added(s.now, diff.added)
}

// gone removes a peer from everything that was known of it.
func (o *Overlay) gone(peer task.PeerID) {
	o.locations.noAnswer(&o.step, &o.members, peer)
	o.locations.away(o.step.now, peer)
	o.members.forget(peer)
	o.step.act(Forget{Peer: peer})
}

// down takes a member off the roster (master only).
func (o *Overlay) down(peer task.PeerID, left bool, reason string) {
	s, m := &o.step, &o.members
	if peer == m.self.Peer {
		return
	}
	member, listed := m.roster.Get(peer)
	m.strike(s.now, peer)
	o.gone(peer)
	if !listed {
		return
	}
	if !left && !m.denied[peer] {
		m.lose(s.now, member)
	}
	s.act(MemberDown{Member: member, Left: left, Reason: reason})
}

// deny cuts off whom the queue does not want any more.
func (o *Overlay) deny(peers []task.PeerID) {
	o.members.deny(peers)
	for _, peer := range peers {
		o.locations.records.hide(o.step.now, peer)
		if o.election.inOffice() {
			o.down(peer, false, "denied by the queue")
		}
	}
}

// bye takes a leaving member out.
func (o *Overlay) bye(from task.PeerID) {
	if o.election.inOffice() {
		o.down(from, true, "left")
		return
	}
	o.gone(from)
	o.members.bye(from)
	if from == o.election.master.Peer && !o.leaving {
		o.election.masterLeft(&o.step, &o.members)
	}
}

// leave says goodbye: records kept for others go to the members that are next
// in line, and those who deal with this pilot most hear Bye; the rest of the
// site learns it from the roster.
func (o *Overlay) leave() {
	if o.leaving {
		return
	}
	o.leaving = true
	s, m := &o.step, &o.members
	heirs := o.locations.handOver(s, m)
	for _, peer := range o.farewells(heirs) {
		s.send(peer, Bye{})
	}
	s.act(Left{})
}

// farewells lists who hears the goodbye: the master, or of a leaving master
// the next ones in line for the office, the heirs of the records, and some
// more that keep this pilot's own locations or are near by id.
func (o *Overlay) farewells(heirs []task.PeerID) (peers []task.PeerID) {
	s, m := &o.step, &o.members
	add := func(most int, candidates ...task.PeerID) {
		for _, peer := range candidates {
			if len(peers) < most && peer != m.self.Peer && !m.unreachable(s.now, peer) && !slices.Contains(peers, peer) {
				peers = append(peers, peer)
			}
		}
	}
	all, some := m.known().Len()+1, m.config.Members.Farewells
	if !o.election.inOffice() {
		add(all, o.election.master.Peer)
	}
	add(all, heirs...)
	near := peersOf(m.nearest(s.now, m.key, some))
	some += len(peers)
	if o.election.inOffice() {
		add(some, peersOf(m.known().sorted)...)
	}
	add(some, o.locations.announced.keepers()...)
	add(some, near...)
	return peers
}
