package dht

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// renewSpread is within what time all pilots renew their announcements after parts of
// a site met.
const renewSpread = 15 * time.Second

func (o *Overlay) join(e Joined) {
	o.joined = true
	o.members.join(e.Self)
	o.install(verdict{term: e.Term, master: e.Master})
}

// install brings the other parts under a new master or a new term.
func (o *Overlay) install(v verdict) {
	if known := o.election.master.Peer; known != "" && v.master.Peer != "" && v.master.Peer != known {
		// Parts of a site that had masters of their own took each other for gone.
		o.partsMet()
	}
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
	o.members.follow(o.step.now, v.master)
	if changed {
		o.step.act(MasterChanged{Term: v.term, Master: v.master})
	}
	o.election.introduce(&o.step, o.members.self)
}

// takeOffice makes this pilot master under a term. Those whom it knows are its
// first members; the others introduce themselves when they hear its first beat.
func (o *Overlay) takeOffice(v verdict) {
	s, m := &o.step, &o.members
	dead := o.election.vote.dead
	o.election.enter(s.now, reigning, v)
	up, passed := m.takeOver(s.now, dead)
	for _, peer := range slices.Sorted(maps.Keys(dead)) {
		o.gone(peer)
		m.depart(s.now, peer)
	}
	s.act(MasterChanged{Term: v.term, Master: m.self, Self: true, Provisional: v.provisional, Passed: passed})
	for _, other := range up {
		s.act(MemberUp{Member: other})
		if m.isSuspect(s.now, other.Peer) {
			m.probe(s.now, other.Peer)
		}
	}
	o.beat()
}

// beat makes this master heard by everybody; every so often it wants replies
// and so learns who is there.
func (o *Overlay) beat() {
	rollCall := o.election.beat(o.step.now)
	o.cast(Cast{Kind: CastBeat, Gone: o.members.departures(o.step.now), Reply: rollCall}, 0)
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
func (o *Overlay) received(from task.PeerID, cast Cast) {
	if o.leaving {
		return
	}
	if !o.heardMaster(from, Office{Term: cast.Term, Master: cast.Master}, cast.ID.Root == cast.Master.Peer) {
		if cast.Term.Less(o.election.term) && cast.ID.Root != from {
			o.election.tell(&o.step, cast.ID.Root) // it may not know that it was deposed
		}
		return
	}
	for _, peer := range cast.Gone {
		o.heardGone(peer)
	}
	o.broadcast.receive(&o.step, &o.members, from, cast)
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
		m.trust(e.Peer)
	}
	switch listed := m.isListed(e.Peer); {
	case o.leaving:
	case !o.election.inOffice():
		o.election.dialled(s, m, e)
		if !e.OK && e.Peer != o.election.master.Peer {
			o.missing(e.Peer)
		}
	case listed && e.Refused:
		o.down(e.Peer, false, "its connection broke and nobody listens at its port")
	case listed: // it may be slow, as one that has just begun: pings decide
		m.probe(s.now, e.Peer)
	case e.OK && m.isLost(e.Peer):
		o.election.tell(s, e.Peer)
	case !e.OK:
		o.gone(e.Peer)
	}
}

// disconnected handles a broken connection: redial once, then draw the
// consequences (FACTS: a dead peer is seen within milliseconds on TCP).
func (o *Overlay) disconnected(peer task.PeerID) {
	s, m := &o.step, &o.members
	o.broadcast.disconnected(s, m, peer)
	o.locations.noAnswer(s, m, peer)
	other, known := m.member(peer)
	switch {
	case o.leaving:
	case peer == o.election.master.Peer && !o.election.inOffice():
		o.election.lostMaster(s)
	case known:
		s.act(Dial{Member: other})
	}
}
