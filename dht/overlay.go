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
	m.forgetNamed(s.now)
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
	case Routed:
		o.routed(e.Member)
	case Unrouted:
		o.unrouted(e.Peer)
	case LookedUp:
		o.lookedUp(e)
	case Denied:
		o.deny(e.Peers)
	case ClaimAnswer:
		if !o.leaving {
			o.install(o.election.answered(s, m, e))
			o.registered(e.Members)
		}
	case Fenced:
		if !o.leaving && e.Term == o.election.term {
			o.election.fencedOff(s)
		}
	case Broadcast:
		o.cast(Cast{Kind: CastPayload, Payload: e.Payload, Reply: e.Reply}, e.N)
	case Reply:
		o.broadcast.replied(s, m, e)
	case SendApp:
		if e.To == m.self.Peer {
			s.act(Inbound{From: e.To, Data: e.Data})
		} else {
			s.send(e.To, App{Data: e.Data})
		}
	case Redirect:
		s.send(e.To, Near{Members: m.near(s.now, e.To, []task.FileKey{e.File})})
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
	missed := m.isLost(from)
	missed = o.seen(from) || missed
	m.trust(from)
	o.election.heardCandidate(s.now, from)
	switch message.(type) {
	case Hello, Bye, Office:
	default:
		o.unlisted(from)
	}
	switch e := message.(type) {
	case Hello:
		o.hello(from, e, missed)
	case Welcome:
		o.welcome(from, e)
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
		o.bye(from, e)
	case Cast:
		o.received(from, e)
	case CastAck:
		o.broadcast.acknowledged(s, m, from, e)
	case CastReply:
		o.broadcast.gather(s, m, from, e)
	case Put:
		l.records.put(s.now, from, e.Records)
		if e.N > 0 && !o.leaving { // else an heir has to be told, too
			s.send(from, PutAck{N: e.N, Near: l.near(s, m, from, e.Sure, filesOf(e.Records)), Passed: l.passOn(s, m, from, e)})
		}
	case PutAck:
		m.learn(s.now, e.Near)
		l.announced.acknowledged(s.now, m, from, e)
	case Find:
		s.send(from, Found{N: e.N, Records: l.records.find(s.now, from, e.Files), Near: l.near(s, m, from, e.Sure, e.Files)})
	case Found:
		m.learn(s.now, e.Near)
		l.finder.found(s, m, &l.records, from, e)
	case Near:
		m.learn(s.now, e.Members)
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
	if !o.leaving {
		m.lookAround(s)
	}
	o.broadcast.pass(s, m)
	if !o.leaving {
		o.locations.announced.pass(s, m, &o.locations.records)
	}
	o.locations.finder.pass(s, m)
	o.locations.records.sweep(s.now)
	o.passProbes() // of those who left one of these without an answer
}

// lookedUp gives the answer of a lookup to the part that wanted it.
func (o *Overlay) lookedUp(e LookedUp) {
	if e.Target == Bottom {
		o.election.lookedUp(&o.step, &o.members, e.Members)
		return
	}
	o.members.lookedAround(o.step.now, e)
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
	return earlier(first, o.election.deadline(), o.locations.announced.deadline(), o.members.own.next)
}

// Master is the member in office as far as this pilot knows.
func (o *Overlay) Master() (Member, task.Term) { return o.election.master, o.election.term }

// Members lists, in the order of the ids, the members that this pilot knows: as
// master those that introduced themselves, which is all of them.
func (o *Overlay) Members() []Member {
	if o.election.inOffice() {
		return membersOf(o.members.listed())
	}
	return membersOf(o.members.known.sorted)
}

// Size is how many members this pilot knows, itself included.
func (o *Overlay) Size() int { return len(o.members.known.sorted) }

// Member finds a member by peer id.
func (o *Overlay) Member(peer task.PeerID) (Member, bool) { return o.members.member(peer) }

// Nearest returns up to n live members nearest to a file's key, nearest
// first; this pilot may be among them.
func (o *Overlay) Nearest(file task.FileKey, n int) []Member {
	return membersOf(o.members.nearest(o.step.now, KeyOfFile(file), n))
}

func (o *Overlay) String() string {
	return fmt.Sprintf("%s %s term=%s master=%s members=%d",
		o.members.self.Pilot, o.election.phase, o.election.term, o.election.master.Pilot, o.Size())
}
