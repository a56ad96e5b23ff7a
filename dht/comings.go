package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// hello lists a member at its master, or says who is master, or was until now: whoever
// introduces itself takes this pilot for the master, and its pongs for that one's.
func (o *Overlay) hello(from task.PeerID, h Hello, missed bool) {
	s, m := &o.step, &o.members
	if h.Member.Peer != from || o.leaving {
		return
	}
	if !o.election.inOffice() {
		o.election.tell(s, from)
		return
	}
	added := m.enlist(h.Member)
	s.send(from, Welcome{Missed: missed})
	if added {
		s.act(MemberUp{Member: h.Member})
	}
	o.broadcast.introduced(s, m)
}

// registered has a new master look for the pilots that the queue knows: who died
// together with the last master was perhaps in nobody's routing table here.
func (o *Overlay) registered(pilots []Member) {
	s, m := &o.step, &o.members
	for _, other := range pilots {
		if !o.election.inOffice() || !m.mayBe(other.Peer) || m.isListed(other.Peer) || o.locations.records.isHidden(other.Peer) {
			continue
		}
		m.enlist(other)
		m.probe(s.now, other.Peer)
		s.act(MemberUp{Member: other})
	}
}

// welcome hears that the master knows this pilot. If it was taken for gone, others
// were told so: whoever keeps its locations has to hear from it.
func (o *Overlay) welcome(from task.PeerID, w Welcome) {
	o.election.welcome(from)
	if w.Missed {
		o.locations.announced.renew(o.step.now, underWay)
	}
}

// unlisted answers a sign of life from somebody whom this master does not know: it
// was dropped by mistake and may introduce itself again.
func (o *Overlay) unlisted(from task.PeerID) {
	if o.election.inOffice() && !o.leaving && !o.members.isListed(from) {
		o.election.tell(&o.step, from)
	}
}

// seen takes a sign of life, and tells whether the peer was held for gone. If so, parts
// of a site that had been cut in two have perhaps met: what was announced in one of
// them is told to those who are nearest now.
func (o *Overlay) seen(peer task.PeerID) (returned bool) {
	if returned = o.locations.records.isHidden(peer); returned {
		o.locations.records.show(peer)
		o.members.returned(peer)
		o.partsMet()
	}
	return returned
}

// partsMet renews all announcements, at other moments than other pilots do.
func (o *Overlay) partsMet() {
	o.locations.announced.partsMet(o.step.now, time.Duration(o.members.key.Short()%uint64(renewSpread)))
}

// routed hears that kad-dht knows another member. If it is a neighbour, records
// that it is near to are handed over to it.
func (o *Overlay) routed(other Member) {
	s, m := &o.step, &o.members
	if e := m.route(other); e != nil {
		o.seen(other.Peer)
		o.locations.handOverTo(s, m, e)
		if m.key.Common(e.key) >= m.own.bits {
			m.settle(s.now) // it may be one too many
		}
		o.unlisted(other.Peer)
	}
}

// unrouted hears that kad-dht has given a member up.
func (o *Overlay) unrouted(peer task.PeerID) {
	if o.members.unroute(o.step.now, peer) {
		o.locations.inherit(&o.step, &o.members, KeyOfPeer(peer))
	}
}

// missing passes a peer over that this pilot cannot reach, as long as it may matter
// who that was: if this pilot is master by then, it looks for it.
func (o *Overlay) missing(peer task.PeerID) {
	s, m := &o.step, &o.members
	if m.known.entry(peer) == nil {
		return
	}
	other, _ := m.member(peer)
	o.lose(peer)
	m.learn(s.now, []Member{other})
	m.suspects[peer] = suspicion{since: s.now, until: s.now.Add(namedFor), seen: true}
}

// gone removes a peer from everything that was known of it, and points nobody to its
// files any more.
func (o *Overlay) gone(peer task.PeerID) {
	o.locations.records.hide(o.step.now, peer)
	o.lose(peer)
}

func (o *Overlay) lose(peer task.PeerID) {
	s, m := &o.step, &o.members
	o.locations.noAnswer(s, m, peer)
	o.locations.announced.keeperGone(s.now, peer)
	if known := m.known.entry(peer); known != nil {
		m.forget(peer)
		o.locations.inherit(s, m, known.key)
		if m.key.Common(known.key) >= m.own.bits {
			m.lookSoon(s.now)
		}
	}
	s.act(Forget{Peer: peer})
}

// heardGone takes the master's word that a member is gone.
func (o *Overlay) heardGone(peer task.PeerID) {
	switch {
	case peer == o.members.self.Peer:
		o.election.introduceAgain(&o.step, o.members.self)
	case !o.locations.records.isHidden(peer):
		o.gone(peer)
	}
}

// down takes out a member that died or left (master only).
func (o *Overlay) down(peer task.PeerID, left bool, reason string) {
	s, m := &o.step, &o.members
	if peer == m.self.Peer {
		return
	}
	e := m.known.entry(peer)
	o.gone(peer)
	m.depart(s.now, peer)
	if e == nil || !e.listed {
		return
	}
	if !left && !m.denied[peer] {
		m.lose(s.now, e.member)
	}
	s.act(MemberDown{Member: e.member, Left: left, Reason: reason})
}

// deny cuts off whom the queue does not want any more.
func (o *Overlay) deny(peers []task.PeerID) {
	o.members.deny(peers)
	for _, peer := range peers {
		if o.election.inOffice() {
			o.down(peer, false, "denied by the queue")
		} else {
			o.gone(peer)
		}
	}
}

// bye takes a leaving member out.
func (o *Overlay) bye(from task.PeerID, goodbye Bye) {
	if o.election.inOffice() {
		o.down(from, true, "left")
		return
	}
	o.gone(from)
	if from == o.election.master.Peer && !o.leaving {
		o.election.masterLeft(&o.step, &o.members, goodbye.Resignation)
	}
}

// leave says goodbye: records kept for others go to the members that are next
// in line, and those who deal with this pilot most hear Bye; the rest of the
// site learns it from the master's beats.
func (o *Overlay) leave() {
	if o.leaving {
		return
	}
	o.leaving = true
	s, m := &o.step, &o.members
	heirs := o.locations.handOver(s, m)
	goodbye := Bye{}
	if o.election.inOffice() {
		goodbye.Resigns = o.election.term
	}
	for _, peer := range o.farewells(heirs) {
		s.send(peer, goodbye)
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
	all, some := len(m.known.sorted)+1, m.config.Members.Farewells
	if !o.election.inOffice() {
		add(all, o.election.master.Peer)
	}
	add(all, heirs...)
	some += len(peers)
	if o.election.inOffice() {
		add(some, peersOf(m.known.sorted)...)
	}
	add(some, o.locations.announced.keepers()...)
	add(some, peersOf(m.nearest(s.now, m.key, some))...)
	return peers
}
