package dht

import (
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

func (o *Overlay) join(e Joined) {
	o.joined = true
	o.members.join(e.Self)
	for _, other := range e.Contacts {
		o.members.met(other)
	}
	o.install(verdict{term: e.Term, master: e.Master})
}

// install brings the other parts under a new master or a new term.
func (o *Overlay) install(v verdict) {
	switch {
	case v.master.Peer == "":
	case v.master.Peer == o.members.self.Peer:
		o.takeOffice(v)
	default:
		o.follow(v)
	}
}

// follow accepts a master and introduces this pilot to it.
func (o *Overlay) follow(v verdict) {
	changed := o.election.master.Peer != v.master.Peer || o.election.term != v.term
	o.election.enter(o.step.now, following, v)
	o.members.serve(v.term, v.master)
	if changed {
		o.step.act(MasterChanged{Term: v.term, Master: v.master})
	}
	o.election.introduce(&o.step, o.members.self)
}

// takeOffice makes this pilot master under a term.
func (o *Overlay) takeOffice(v verdict) {
	s, m := &o.step, &o.members
	was, dead := o.election.inOffice(), o.election.vote.dead
	o.election.enter(s.now, reigning, v)
	passed := m.takeOver(s.now, v.term, dead)
	for _, other := range passed {
		o.gone(other.Peer)
	}
	for _, peer := range slices.Sorted(maps.Keys(dead)) {
		if m.contacts.Has(peer) {
			o.gone(peer) // known otherwise
		}
	}
	for _, peer := range m.strangers() {
		o.locations.away(s.now, peer)
	}
	s.act(MasterChanged{Term: v.term, Master: m.self, Self: true, Provisional: v.provisional, Passed: passed})
	if was {
		o.beat()
		return
	}
	for _, other := range m.roster.Members() {
		if other.Peer != m.self.Peer {
			s.act(MemberUp{Member: other})
		}
	}
	o.beat()
	for _, peer := range m.strangers() {
		if !dead[peer] {
			o.election.tell(s, peer)
		}
	}
}

// beat makes this master heard by everybody; every so often it wants replies
// and so learns who is there.
func (o *Overlay) beat() {
	rollCall := o.election.beat(o.step.now)
	o.cast(Cast{Kind: CastBeat, Roster: o.members.recent(o.step.now), Reply: rollCall}, 0)
	o.members.register.whole = false
	if rollCall {
		o.members.seekLost(&o.step)
	}
}

// cast sends a message to the whole site.
func (o *Overlay) cast(c Cast, user uint64) {
	c.Term, c.Master = o.election.term, o.election.master
	o.broadcast.start(&o.step, &o.members, c, user)
}

// received takes a broadcast on, if its master is in office here.
func (o *Overlay) received(from task.PeerID, c Cast) {
	if o.leaving {
		return
	}
	if !o.heardMaster(from, Office{c.Term, c.Master}, c.ID.Root == c.Master.Peer) {
		if c.Term.Less(o.election.term) && c.ID.Root != from {
			o.election.tell(&o.step, c.ID.Root) // it may not know that it was deposed
		}
		return
	}
	o.applyRoster(from, c.Roster, c.Kind == CastBeat)
	o.broadcast.receive(&o.step, &o.members, from, c)
}

// heardOffice takes somebody's word on who is master.
func (o *Overlay) heardOffice(from task.PeerID, office Office) {
	if !o.leaving {
		o.install(o.election.heard(&o.step, &o.members, from, office))
	}
}

// heardMaster notes a message under a master's term and tells whether that
// term is in force here; own is set where the message came from the master
// itself, if through others.
func (o *Overlay) heardMaster(from task.PeerID, office Office, own bool) bool {
	switch order := office.Term.Compare(o.election.term); {
	case order < 0:
		o.election.tell(&o.step, from)
	case order > 0:
		o.heardOffice(from, office)
	}
	if o.election.term != office.Term {
		return false
	}
	if own {
		o.election.masterAlive(&o.step, &o.members)
	}
	return true
}

// dialled hears how a dial went that a part wished for.
func (o *Overlay) dialled(e Dialled) {
	s, m := &o.step, &o.members
	if e.OK {
		o.locations.added(s.now, m.trust(e.Peer))
	}
	switch listed := m.roster.Has(e.Peer); {
	case o.leaving:
	case !o.election.inOffice():
		o.election.dialled(s, m, e)
	case listed && e.OK:
		m.probe(s.now, e.Peer)
	case listed:
		o.down(e.Peer, false, "its connection broke and it could not be dialled")
	case e.OK && m.isLost(e.Peer):
		o.election.tell(s, e.Peer)
	}
}

// disconnected handles a broken connection: redial once, then draw the
// consequences (FACTS: a dead peer is seen within milliseconds on TCP).
func (o *Overlay) disconnected(peer task.PeerID) {
	s, m := &o.step, &o.members
	o.broadcast.disconnected(s, m, peer)
	o.locations.noAnswer(s, m, peer)
	switch {
	case o.leaving:
	case o.election.inOffice():
		if member, listed := m.roster.Get(peer); listed {
			s.act(Dial{Member: member})
		}
	case peer == o.election.master.Peer:
		o.election.lostMaster(s)
	}
}
