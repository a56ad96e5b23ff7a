package dht_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// A pilot that the master has not answered says so again, with every beat.
func TestAMemberIntroducesItselfUntilItIsWelcome(t *testing.T) {
	p := &one{t: t, core: dht.New(dht.Config{}), now: time.Unix(1e9, 0), self: member(0)}
	if hello := sent[dht.Hello](p.step(dht.Joined{Self: member(0), Master: member(1), Term: term(1, member(1))})); len(hello) != 1 {
		t.Fatalf("introductions %+v", hello)
	}
	p.pass(2 * time.Second)
	if hello := sent[dht.Hello](p.beat(member(1), term(1, member(1)), 1)); len(hello) != 1 {
		t.Errorf("without an answer: %+v", hello)
	}
	p.get(member(1).Peer, dht.Welcome{})
	p.pass(2 * time.Second)
	if hello := sent[dht.Hello](p.beat(member(1), term(1, member(1)), 2)); len(hello) != 0 {
		t.Errorf("although it is welcome: %+v", hello)
	}
	m := master(t, member(1), nil)
	if welcome := sent[dht.Welcome](m.get(member(0).Peer, dht.Hello{Member: member(0)})); len(welcome) != 1 || len(done[dht.MemberUp](m.out)) != 1 {
		t.Errorf("the master's answer: %+v", m.out)
	}
	if welcome := sent[dht.Welcome](m.get(member(0).Peer, dht.Hello{Member: member(0)})); len(welcome) != 1 || len(done[dht.MemberUp](m.out)) != 0 {
		t.Errorf("and the next time: %+v", m.out)
	}
}

// The master says with its beats who is gone, to those who have not heard the goodbye.
func TestBeatsNameThoseThatAreGone(t *testing.T) {
	m := master(t, member(0), number(0, 6))
	m.get(member(3).Peer, dht.Bye{})
	m.site = nil
	casts := sent[dht.Cast](m.pass(2 * time.Second))
	if len(casts) == 0 || !slices.Equal(casts[0].message.Gone, []task.PeerID{member(3).Peer}) {
		t.Fatalf("the next beat: %+v", casts)
	}
	p := worker(t, member(1), member(0), number(0, 6))
	forgotten := done[dht.Forget](p.get(member(0).Peer, casts[0].message))
	if _, known := p.core.Member(member(3).Peer); known || len(forgotten) != 1 || forgotten[0].Peer != member(3).Peer {
		t.Errorf("who hears it forgets %+v", forgotten)
	}
	m.pass(11 * time.Second) // the others have not answered and are gone as well
	m.get(member(9).Peer, dht.Hello{Member: member(9)})
	if casts = sent[dht.Cast](m.pass(time.Second)); len(casts) == 0 || slices.Contains(casts[len(casts)-1].message.Gone, member(3).Peer) {
		t.Error("named for ever")
	}
}

// A newcomer reaches a master that does not answer yet, having registered a
// moment before. At the first sign of life it introduces itself again, and does
// not wait for a beat.
func TestAHelloThatWasLostIsRepeatedAtTheMastersFirstSignOfLife(t *testing.T) {
	p := worker(t, member(0), member(1), number(0, 2))
	p.step(dht.Disconnected{Peer: member(1).Peer})
	p.step(dht.Dialled{Peer: member(1).Peer})
	p.pass(100 * time.Millisecond)
	office := dht.Office{Term: term(1, member(1)), Master: member(1)}
	if hello := sent[dht.Hello](p.get(member(1).Peer, office)); len(hello) != 1 || hello[0].to != member(1).Peer {
		t.Fatalf("introductions %+v", hello)
	}
	if hello := sent[dht.Hello](p.get(member(1).Peer, office)); len(hello) != 0 {
		t.Errorf("and once more within the beat: %+v", hello)
	}
}

// A member whose connection broke is pinged also where it cannot be dialled, unless nobody
// listens at its port: it may be slow, as one that has just begun.
func TestOnlyPingsOfTheMasterTakeAMemberForDead(t *testing.T) {
	for _, dialled := range []dht.Dialled{{Peer: member(3).Peer, OK: true}, {Peer: member(3).Peer}} {
		m := master(t, member(0), number(0, 6))
		m.step(dht.Disconnected{Peer: member(3).Peer})
		if actions := m.step(dialled); len(sent[dht.Ping](actions)) != 1 {
			t.Fatalf("%+v: no ping: %v", dialled, actions)
		}
		alive := m.pass(3 * time.Second) // one ping has failed
		if len(done[dht.MemberDown](alive)) != 0 {
			t.Fatalf("%+v: down after one failed ping", dialled)
		}
		m.get(member(3).Peer, dht.CastAck{}) // any sign of life will do
		down := func(actions []dht.Action) bool {
			return slices.ContainsFunc(done[dht.MemberDown](actions), func(d dht.MemberDown) bool { return d.Member.Peer == member(3).Peer })
		}
		if down(m.pass(3500 * time.Millisecond)) { // the third ping would have failed by now
			t.Fatalf("%+v: taken for dead in spite of a sign of life", dialled)
		}
		if !down(m.pass(5 * time.Second)) { // it left the next beat without an acknowledgement
			t.Fatalf("%+v: silent, and not taken for dead", dialled)
		}
	}
}

func TestAHungMemberIsMissedByTheRollCall(t *testing.T) {
	m := master(t, member(0), number(0, 3))
	start := m.now
	for m.now.Sub(start) < 30*time.Second {
		for _, l := range sent[dht.Ping](m.out) {
			if l.to != member(2).Peer {
				m.get(l.to, dht.Pong(l.message))
			}
		}
		for _, a := range m.pass(50 * time.Millisecond) {
			s, ok := a.(dht.Send)
			if cast, is := s.Message.(dht.Cast); ok && is && s.To == member(1).Peer {
				m.get(s.To, dht.CastAck{ID: cast.ID, Space: cast.Space})
				m.get(s.To, dht.CastReply{ID: cast.ID, Space: cast.Space, Reached: []uint64{dht.KeyOfPeer(s.To).Short()}})
			}
			if down, ok := a.(dht.MemberDown); ok {
				if down.Member.Peer != member(2).Peer || down.Left {
					t.Fatalf("%+v", down)
				}
				if took := m.now.Sub(start); took < 6*time.Second || took > 15*time.Second {
					t.Errorf("down after %s", took)
				}
				return
			}
		}
	}
	t.Fatal("never missed on an idle site")
}

func TestAMemberDroppedByMistakeIntroducesItselfAgain(t *testing.T) {
	m := master(t, member(0), number(0, 4))
	m.step(dht.Disconnected{Peer: member(2).Peer})
	if downs := done[dht.MemberDown](m.step(dht.Dialled{Peer: member(2).Peer, Refused: true})); len(downs) != 1 || downs[0].Left {
		t.Fatalf("%+v", downs)
	}
	office := sent[dht.Office](m.get(member(2).Peer, dht.App{Data: []byte("I am here")}))
	if len(office) != 1 || office[0].to != member(2).Peer {
		t.Fatalf("%+v", office)
	}
	for _, beat := range sent[dht.Cast](m.pass(2100 * time.Millisecond)) {
		if slices.Contains(beat.message.Gone, member(2).Peer) {
			t.Error("a beat says that it is gone, though it has spoken since")
		}
	}
	p := worker(t, member(2), member(0), number(0, 4))
	p.pass(2100 * time.Millisecond)
	hello := sent[dht.Hello](p.get(member(0).Peer, office[0].message))
	if len(hello) != 1 {
		t.Fatalf("introductions %+v", hello)
	}
	welcomed := m.get(member(2).Peer, hello[0].message)
	if ups := done[dht.MemberUp](welcomed); len(ups) != 1 {
		t.Errorf("%+v", ups)
	}
	if welcome := sent[dht.Welcome](welcomed); len(welcome) != 1 || !welcome[0].message.Missed {
		t.Errorf("it does not hear that it was taken for gone: %+v", welcome)
	}
	// It also says so when a beat takes it for gone.
	p.pass(2100 * time.Millisecond)
	gone := dht.Cast{ID: dht.CastID{Root: member(0).Peer, N: 9}, Kind: dht.CastBeat, Term: term(1, member(0)), Master: member(0), Gone: []task.PeerID{member(2).Peer}}
	if hello := sent[dht.Hello](p.get(member(3).Peer, gone)); len(hello) == 0 {
		t.Error("it does not mind")
	}
}

func TestGoodbyesAreFew(t *testing.T) {
	p := worker(t, member(0), member(1), number(0, 500))
	byes := recipients(sent[dht.Bye](p.step(dht.Leave{})))
	if len(byes) > 17 || !slices.Contains(byes, member(1).Peer) {
		t.Errorf("%d goodbyes, the master among them: %v", len(byes), slices.Contains(byes, member(1).Peer))
	}
	if len(done[dht.Left](p.out)) != 1 || len(p.step(dht.Leave{})) != 0 {
		t.Error("left twice or not at all")
	}
}

func TestALeaverHandsItsRecordsOver(t *testing.T) {
	members := number(0, 20)
	f := task.FileKey("kept")
	near := nearest(members, f, 4)
	i := slices.IndexFunc(members, func(m dht.Member) bool { return m.Peer == near[1] })
	boss := members[0]
	if boss.Peer == near[1] {
		boss = members[1]
	}
	p := worker(t, members[i], boss, members)
	record := dht.Record{File: f, Holder: "holder", Seq: 4, TTL: time.Minute}
	p.get("holder", dht.Put{N: 1, Records: []dht.Record{record}})
	puts := sent[dht.Put](p.step(dht.Leave{}))
	if len(puts) != 1 || puts[0].to != near[3] || puts[0].message.Records[0] != record {
		t.Fatalf("handed over: %+v, the heir is %s", puts, near[3])
	}
	if byes := recipients(sent[dht.Bye](p.out)); !slices.Contains(byes, near[3]) {
		t.Error("the heir hears no goodbye")
	}
	if acks := sent[dht.PutAck](p.get("holder", dht.Put{N: 2, Records: []dht.Record{record}})); len(acks) != 0 {
		t.Error("a leaver takes new records for good")
	}
}
