package dht

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Overlay is one pilot's part in its site's overlay. It is thread-unsafe:
// one loop calls Step with every event and carries the actions out in order.
//
// It consists of four parts, each with a state of its own, and only brings them
// together: an event goes to the part that it concerns, and what comes out of
// that to the others. No part knows another one but the members, which the other
// three are given with every call.
type Overlay struct {
	step      step
	members   membership
	election  election
	broadcast broadcast
	locations locations
	joined    bool
	leaving   bool
}

// New makes an overlay that waits for Joined.
func New(config Config) *Overlay {
	config = config.withDefaults()
	o := &Overlay{election: election{config: config}}
	o.members.init(config)
	o.broadcast.init(config)
	o.locations.init(config)
	return o
}

// Step takes an event and returns what is to be done, in order.
func (o *Overlay) Step(now time.Time, event Event) []Action {
	s, m := &o.step, &o.members
	if now.After(s.now) {
		s.now = now
	}
	s.out = nil
	switch e := event.(type) {
	case Joined:
		o.join(e)
	case Received:
		if o.joined && !m.denied[e.From] {
			o.receive(e.From, e.Message)
		}
	case Disconnected:
		o.disconnected(e.Peer)
	case Dialled:
		o.dialled(e)
	case Met:
		m.met(e.Member)
		if e.Member.Peer != "" && e.Member.Peer != m.self.Peer && !m.denied[e.Member.Peer] {
			o.unlisted(e.Member.Peer)
		}
	case Denied:
		o.deny(e.Peers)
	case ClaimAnswer:
		if !o.leaving {
			o.install(o.election.answered(s, m, e))
		}
	case Fenced:
		if !o.leaving {
			o.election.fencedOff(s)
		}
	case Broadcast:
		o.cast(Cast{Kind: CastPayload, Payload: e.Payload, Reply: e.Reply, Roster: m.news(o.election.lastBeat)}, e.N)
	case Reply:
		o.broadcast.replied(s, m, e)
	case SendApp:
		if e.To == m.self.Peer {
			s.act(Inbound{From: e.To, Data: e.Data})
		} else {
			s.send(e.To, App{Data: e.Data})
		}
	case Announce:
		o.locations.announced.add(s.now, e.Files)
	case Withdraw:
		o.locations.announced.remove(s.now, e.Files)
	case Locate:
		o.locations.finder.locate(s, m, &o.locations.records, e)
	case Leave:
		o.leave()
	case Tick:
	}
	if o.joined {
		o.pass()
	}
	return s.out
}

// receive gives a message to the part that it is for. Whatever a member says is
// a sign of life.
func (o *Overlay) receive(from task.PeerID, message Message) {
	s, m, l := &o.step, &o.members, &o.locations
	delete(m.probes, from)
	l.records.show(from)
	l.added(s.now, m.trust(from))
	o.election.heardCandidate(s.now, from)
	switch message.(type) {
	case Hello, Bye, Office:
	default:
		o.unlisted(from)
	}
	switch e := message.(type) {
	case Hello:
		o.hello(from, e)
	case Welcome:
		o.welcome(from, e)
	case RosterWanted:
		o.rosterWanted(from)
	case Office:
		o.heardOffice(from, e)
	case MasterDead:
		if !o.leaving {
			o.election.nudge(s, from, e.Term)
		}
	case Ping:
		s.send(from, Pong(e))
	case Pong:
		if from == o.election.master.Peer {
			o.election.masterAlive(s, m)
		}
	case Bye:
		o.bye(from)
	case Cast:
		o.received(from, e)
	case CastAck:
		o.broadcast.acknowledged(s, m, from, e)
	case CastReply:
		o.broadcast.gather(s, m, from, e)
	case Put:
		l.records.put(s.now, from, e.Records)
		if !o.leaving { // else an heir has to be told, too
			s.send(from, PutAck{N: e.N})
		}
	case PutAck:
		l.announced.acknowledged(s.now, from, e.N)
	case Find:
		s.send(from, Found{N: e.N, Records: l.records.find(s.now, m, from, e.Files)})
	case Found:
		l.finder.found(s, m, &l.records, from, e)
	case App:
		s.act(Inbound{From: from, Data: e.Data})
	}
}

// pass carries out everything that is due.
func (o *Overlay) pass() {
	s, m := &o.step, &o.members
	o.passProbes()
	if !o.leaving && o.election.pass(s, m) {
		o.beat()
	}
	m.passNewcomers(s)
	o.broadcast.pass(s, m)
	if !o.leaving {
		o.locations.announced.pass(s, m, &o.locations.records)
	}
	o.locations.finder.pass(s)
	o.locations.records.sweep(s.now)
	o.passProbes() // of those who left one of these without an answer
}

func (o *Overlay) passProbes() {
	for _, peer := range o.members.passProbes(&o.step) {
		o.down(peer, false, "it answers no ping")
	}
}

// Deadline is when Step wants a Tick at the latest; zero means never.
func (o *Overlay) Deadline() time.Time {
	if !o.joined {
		return time.Time{}
	}
	first := earlier(o.broadcast.deadline(), o.locations.finder.deadline(), o.locations.records.deadline())
	for _, p := range o.members.probes {
		first = earlier(first, p.next)
	}
	if o.leaving {
		return first
	}
	return earlier(first, o.election.deadline(), o.locations.announced.deadline(), o.members.register.due)
}

// Master is the member in office as far as this pilot knows.
func (o *Overlay) Master() (Member, task.Term) { return o.election.master, o.election.term }

// Members lists the roster in the order of the ids.
func (o *Overlay) Members() []Member { return o.members.roster.Members() }

// Size is the number of members on the roster.
func (o *Overlay) Size() int { return o.members.roster.Len() }

// Member finds a member by peer id, on the roster or among the contacts.
func (o *Overlay) Member(peer task.PeerID) (Member, bool) { return o.members.member(peer) }

// Nearest returns up to n live members nearest to a file's key, nearest
// first; this pilot may be among them.
func (o *Overlay) Nearest(file task.FileKey, n int) []Member {
	return membersOf(o.members.nearest(o.step.now, KeyOfFile(file), n))
}

// Routes returns up to n members of every part of the key space, as a Kademlia
// routing table holds them.
func (o *Overlay) Routes(n int) []Member { return o.members.roster.routes(o.members.key, n) }

func (o *Overlay) String() string {
	return fmt.Sprintf("%s %s term=%s master=%s members=%d",
		o.members.self.Pilot, o.election.phase, o.election.term, o.election.master.Pilot, o.Size())
}
