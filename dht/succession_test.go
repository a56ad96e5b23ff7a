package dht_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// A master that says goodbye to some is missed by nobody: its successor's beats
// tell those who did not hear it.
func TestASuccessorTellsThatTheMasterResigned(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.get(ids[5].Peer, dht.Bye{})
	actions := p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[0]), Master: ids[0]})
	if downs := done[dht.MemberDown](actions); len(downs) != 0 {
		t.Errorf("down are %+v, and the master left by itself", downs)
	}
	casts := sent[dht.Cast](actions)
	if len(casts) == 0 || !slices.Equal(casts[0].message.Gone, []task.PeerID{ids[5].Peer}) {
		t.Fatalf("the first beat: %+v", casts)
	}
	other := worker(t, ids[1], ids[5], ids)
	other.get(ids[0].Peer, casts[0].message)
	if _, known := other.core.Member(ids[5].Peer); known || other.core.Size() != 9 {
		t.Errorf("%s knows the master that resigned: %v", other.core, known)
	}
	other.mastership(term(2, ids[0]), ids[0])
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

// A new master's broadcast reaches pilots that have not said their name yet: what
// they reply would be lost. It ends when they have.
func TestABroadcastWaitsForIntroductions(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids[:7])
	p.lose(ids[5])
	p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[0]), Master: ids[0]})
	begun := p.step(dht.Broadcast{N: 7, Payload: []byte("who is there"), Reply: true})
	for _, d := range done[dht.Deliver](begun) {
		p.step(dht.Reply{ID: d.ID})
	}
	stranger := ids[8]
	var ended []dht.Done
	for _, l := range sent[dht.Cast](begun) {
		reached := []uint64{dht.KeyOfPeer(l.to).Short()}
		if l.message.Space.Contains(dht.KeyOfPeer(stranger.Peer)) {
			reached = append(reached, dht.KeyOfPeer(stranger.Peer).Short())
		}
		ended = append(ended, done[dht.Done](p.get(l.to, dht.CastReply{ID: l.message.ID, Space: l.message.Space, Reached: reached}))...)
	}
	if len(ended) != 0 {
		t.Fatalf("ended before all have said their names: %+v", ended)
	}
	ended = done[dht.Done](p.get(stranger.Peer, dht.Hello{Member: stranger}))
	if len(ended) != 1 || ended[0].Reached != 7 || len(ended[0].Missed) != 0 {
		t.Errorf("then: %+v", ended)
	}
}

// The lookup names the dead, too: without those that fail it is repeated.
func TestAnElectionLooksAgainWithoutThoseThatFail(t *testing.T) {
	p := worker(t, ids[9], ids[5], []dht.Member{ids[5], ids[9]})
	p.site = ids
	nudges := sent[dht.MasterDead](p.lose(ids[5]))
	for i := range 9 {
		if i == 5 {
			continue // the master
		}
		if len(nudges) != 1 || nudges[0].to != ids[i].Peer {
			t.Fatalf("candidate %d: nudged %+v", i, nudges)
		}
		nudges = sent[dht.MasterDead](p.step(dht.Dialled{Peer: ids[i].Peer}))
	}
	claims := done[dht.Claim](p.out)
	if looked := done[dht.Lookup](p.out); len(claims) != 1 || len(looked) != 1 || len(looked[0].Without) != 9 {
		t.Errorf("claims %+v after looking for others than %+v", claims, looked)
	}
}

// Of those that a new master knows by their routing entry alone it expects a word.
func TestANewMasterKnowsWhomItMayHaveLost(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.lose(ids[5])
	actions := p.step(dht.ClaimAnswer{})
	ups := done[dht.MemberUp](actions)
	changed := done[dht.MasterChanged](actions)
	if len(ups) != 8 || len(changed) != 1 || !slices.Equal(changed[0].PassedPilots(), []task.PilotID{ids[5].Pilot}) {
		t.Errorf("%d are up, %+v", len(ups), changed)
	}
	var downs []dht.MemberDown
	for range 40 { // all others are cut off
		for _, l := range sent[dht.Cast](p.out) {
			p.step(dht.Disconnected{Peer: l.to})
			p.step(dht.Dialled{Peer: l.to})
		}
		downs = append(downs, done[dht.MemberDown](p.pass(time.Second/2))...)
	}
	if len(downs) != 8 {
		t.Errorf("%d of 8 are missed", len(downs))
	}
}
