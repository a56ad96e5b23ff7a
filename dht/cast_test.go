package dht_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// payload is a broadcast of a member to one that has nobody to pass it on to.
func (p *one) payload(root, master dht.Member, n uint64) []dht.Action {
	own := dht.KeyOfPeer(p.self.Peer)
	return p.get(root.Peer, dht.Cast{
		ID: dht.CastID{Root: root.Peer, N: n}, Kind: dht.CastPayload, Term: term(1, master), Master: master,
		Space: dht.Range{First: own, Last: own}, Budget: time.Second, Reply: true, Payload: []byte("hello"),
	})
}

func TestAMembersBroadcastIsNoSignOfLifeOfTheMaster(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	for i := range 4 {
		p.payload(ids[3], ids[5], uint64(i))
		if doubts := sent[dht.Ping](p.pass(time.Second)); len(doubts) > 0 {
			return
		}
	}
	t.Fatal("the silent master is not doubted")
}

func TestABroadcastIsDeliveredAndAnsweredOnce(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	first := p.payload(ids[5], ids[5], 1)
	if len(done[dht.Deliver](first)) != 1 || len(sent[dht.CastAck](first)) != 1 {
		t.Fatalf("%v", first)
	}
	again := p.payload(ids[3], ids[5], 2)
	id := dht.CastID{Root: ids[5].Peer, N: 1}
	if replies := sent[dht.CastReply](p.step(dht.Reply{ID: id, Data: []byte("x")})); len(replies) != 1 || len(replies[0].message.Data) != 1 {
		t.Fatalf("replies %+v", replies)
	}
	if len(done[dht.Deliver](again)) != 1 {
		t.Error("another broadcast is not delivered")
	}
	second := p.payload(ids[5], ids[5], 1) // a duplicate, after the end
	if len(done[dht.Deliver](second)) != 0 || len(sent[dht.CastReply](second)) != 1 {
		t.Errorf("a duplicate led to %v", second)
	}
	if more := p.step(dht.Reply{ID: id, Data: []byte("y")}); len(more) != 0 {
		t.Errorf("a second reply led to %v", more)
	}
}

// Whoever acknowledges the repair has the broadcast, even if its reply is late.
func TestAnAcknowledgedRepairCountsAsReached(t *testing.T) {
	m := master(t, member(0), number(0, 3))
	m.pass(50 * time.Millisecond)
	m.step(dht.Broadcast{N: 5, Payload: []byte("list"), Reply: true})
	for _, d := range done[dht.Deliver](m.out) {
		m.step(dht.Reply{ID: d.ID, Data: []byte("me")})
	}
	var ended []dht.Done
	for range 30 {
		for _, l := range sent[dht.Cast](m.pass(50 * time.Millisecond)) {
			if l.to == member(1).Peer && l.message.Kind == dht.CastPayload && l.message.Space.First == l.message.Space.Last {
				m.get(l.to, dht.CastAck{ID: l.message.ID, Space: l.message.Space})
			}
		}
		ended = append(ended, done[dht.Done](m.out)...)
	}
	if len(ended) != 1 || ended[0].N != 5 || ended[0].Reached != 2 || !slices.Equal(ended[0].Missed, []task.PeerID{member(2).Peer}) {
		t.Fatalf("%+v", ended)
	}
}

func TestRumoursEnd(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	space := dht.WholeSpace()
	told := func(n uint64, brought ...dht.Member) bool {
		m := dht.Cast{ID: dht.CastID{Root: ids[5].Peer, N: n}, Kind: dht.CastBeat, Term: term(1, ids[5]), Master: ids[5], Space: space, Budget: time.Second}
		for _, b := range brought {
			m.Suspect = append(m.Suspect, b.Peer)
		}
		casts := sent[dht.Cast](p.get(ids[5].Peer, m))
		if len(casts) == 0 {
			t.Fatal("not passed on")
		}
		for _, l := range casts {
			if l.to != ids[7].Peer {
				p.get(l.to, dht.CastAck{ID: l.message.ID, Space: l.message.Space})
			}
		}
		return slices.Contains(casts[0].message.Suspect, ids[7].Peer)
	}
	if !told(1, ids[7]) {
		t.Error("a suspicion is passed on with the broadcast that brought it")
	}
	if told(2) {
		t.Error("hearsay is told on and on")
	}
	p.get(ids[7].Peer, dht.Ping{})
	if near := p.core.Nearest("f", 10); len(near) != 10 {
		t.Errorf("%d of 10 are trusted after a sign of life", len(near))
	}
}
