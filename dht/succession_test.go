package dht_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// A master that says goodbye to some is missed by nobody: its successor tells those
// who did not hear it.
func TestASuccessorTakesTheResignedMasterOffTheRoster(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.get(ids[5].Peer, dht.Bye{})
	actions := p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[0]), Master: ids[0]})
	if downs := done[dht.MemberDown](actions); len(downs) != 0 {
		t.Errorf("down are %+v, and the master left by itself", downs)
	}
	casts := sent[dht.Cast](actions)
	if len(casts) == 0 || !slices.Equal(casts[0].message.Roster.Remove, []task.PeerID{ids[5].Peer}) {
		t.Fatalf("the first beat: %+v", casts)
	}
	other := worker(t, ids[1], ids[5], ids)
	if wanted := sent[dht.RosterWanted](other.get(ids[0].Peer, casts[0].message)); len(wanted) != 0 {
		t.Errorf("the roster is wanted: %+v", wanted)
	}
	if _, listed := other.core.Member(ids[5].Peer); listed || other.core.Size() != 9 {
		t.Errorf("%s lists the master that resigned: %v", other.core, listed)
	}
}

// A snapshot that was on its way lists the master that resigned: it has said goodbye
// to the queue, and is not reported as dead.
func TestAResignedMasterIsNotReportedAsDead(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.get(ids[5].Peer, dht.Bye{})
	p.get(ids[1].Peer, dht.Welcome{Master: ids[5], Roster: dht.RosterDelta{Term: term(1, ids[5]), To: 2, Add: ids}})
	if p.core.Size() != 9 {
		t.Errorf("%s lists it again", p.core)
	}
	actions := p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[0]), Master: ids[0]})
	if downs := done[dht.MemberDown](actions); len(downs) != 0 {
		t.Errorf("down are %+v", downs)
	}
}

// A candidate that answers every ping and is never granted the office is passed over;
// it is not dead.
func TestACandidatePassedOverIsNotReportedAsDead(t *testing.T) {
	p := worker(t, ids[1], ids[5], ids)
	p.lose(ids[5])
	claims := 0
	for range 400 {
		actions := p.pass(50 * time.Millisecond)
		for _, ping := range sent[dht.Ping](actions) {
			p.get(ping.to, dht.Pong{N: ping.message.N})
		}
		if claims += len(done[dht.Claim](actions)); claims > 0 {
			break
		}
	}
	actions := p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[1]), Master: ids[1]})
	if downs := done[dht.MemberDown](actions); len(downs) != 0 {
		t.Errorf("down are %+v", downs)
	}
}

// Who heard a goodbye that the master did not gives others the roster as the master
// published it: they, too, build on that when one of them is master.
func TestASnapshotIsWhatTheMasterPublished(t *testing.T) {
	news := dht.Welcome{Master: ids[5], Roster: dht.RosterDelta{Term: term(1, ids[5]), From: 1, To: 2, Add: []dht.Member{member(40)}}}
	teller := worker(t, ids[1], ids[5], ids)
	teller.get(ids[5].Peer, news)
	teller.get(ids[7].Peer, dht.Bye{})
	candidate := worker(t, ids[0], ids[5], ids)
	for _, answer := range sent[dht.Welcome](teller.get(ids[0].Peer, dht.RosterWanted{})) {
		candidate.get(ids[1].Peer, answer.message)
	}
	other := worker(t, ids[2], ids[5], ids)
	other.get(ids[5].Peer, news)
	candidate.lose(ids[5])
	granted := candidate.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[0]), Master: ids[0]})
	other.get(ids[0].Peer, sent[dht.Cast](granted)[0].message)
	if want := candidate.core.Members(); len(want) != 10 || len(other.core.Members()) != len(want) {
		t.Errorf("%s; its master %s", other.core, candidate.core)
	}
}

// A roster of one, which every new site begins with, is not built on: the candidate
// leaves it out whole.
func TestARosterOfOneIsNotBuiltOn(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids[5:6])
	p.lose(ids[5])
	casts := sent[dht.Cast](p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[0]), Master: ids[0]}))
	p.step(dht.Received{From: ids[2].Peer, Message: dht.Hello{Member: ids[2]}})
	casts = append(casts, sent[dht.Cast](p.pass(time.Second))...)
	if len(casts) == 0 {
		t.Fatal("no beat")
	}
	other := worker(t, ids[1], ids[5], ids[5:6])
	for _, beat := range casts {
		if wanted := sent[dht.RosterWanted](other.get(ids[0].Peer, beat.message)); len(wanted) == 0 {
			continue
		}
		answers := append(sent[dht.Welcome](p.get(ids[1].Peer, dht.RosterWanted{})), sent[dht.Welcome](p.pass(time.Second))...)
		for _, answer := range answers {
			other.get(ids[0].Peer, answer.message)
		}
	}
	if _, listed := slices.BinarySearchFunc(other.core.Members(), ids[5], func(a, b dht.Member) int {
		return dht.KeyOfPeer(a.Peer).Compare(dht.KeyOfPeer(b.Peer))
	}); listed {
		t.Errorf("%s lists the master that is dead", other.core)
	}
}

// The first beats of a new master may all be late: the sixth still tells what it
// has changed.
func TestFewChangesTravelWithManyBeats(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.lose(ids[5])
	p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[0]), Master: ids[0]})
	var last dht.Cast
	for range 5 {
		for _, beat := range sent[dht.Cast](p.pass(time.Second)) {
			last = beat.message
		}
	}
	other := worker(t, ids[1], ids[5], ids)
	if wanted := sent[dht.RosterWanted](other.get(ids[0].Peer, last)); len(wanted) != 0 || other.core.Size() != 9 {
		t.Errorf("%s asks %+v", other.core, wanted)
	}
}

// What everybody has by now builds on nothing: who comes from another roster than
// the one in force publishes its own whole.
func TestACandidateWithAnOldRosterPublishesItWhole(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.get(ids[3].Peer, dht.Office{Term: term(2, ids[3]), Master: ids[3]}) // whose roster never came
	p.lose(ids[3])
	actions := p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(3, ids[0]), Master: ids[0]})
	casts := sent[dht.Cast](actions)
	if len(casts) == 0 || casts[0].message.Roster.From != 0 || casts[0].message.Roster.Base.N != 0 {
		t.Errorf("the first beat: %+v", casts)
	}
}

// A successor that missed the last change of the roster has another one than a
// member: that asks for the whole.
func TestAMemberWithANewerRosterThanTheSuccessorAsksForIt(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.lose(ids[5])
	casts := sent[dht.Cast](p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[0]), Master: ids[0]}))
	other := worker(t, ids[1], ids[5], ids)
	newcomer := dht.RosterDelta{Term: term(1, ids[5]), From: 1, To: 2, Add: []dht.Member{member(40)}}
	other.get(ids[5].Peer, dht.Welcome{Master: ids[5], Roster: newcomer})
	wanted := sent[dht.RosterWanted](other.get(ids[0].Peer, casts[0].message))
	if len(wanted) != 1 || wanted[0].to != ids[0].Peer {
		t.Fatalf("asked %+v", wanted)
	}
	for _, answer := range append(sent[dht.Welcome](p.get(ids[1].Peer, dht.RosterWanted{})), sent[dht.Welcome](p.pass(time.Second))...) {
		other.get(ids[0].Peer, answer.message)
	}
	if other.core.Size() != 9 {
		t.Errorf("%s, want the roster of 9 of its master", other.core)
	}
}
