package dht_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

func TestNewcomersAreWelcomedTogether(t *testing.T) {
	m := master(t, member(0), nil)
	first := sent[dht.Welcome](m.get(member(1).Peer, dht.Hello{Member: member(1)}))
	if len(first) != 1 || len(first[0].message.Roster.Add) != 2 || first[0].message.Roster.From != 0 {
		t.Fatalf("a single newcomer waits: %+v", first)
	}
	for i := 2; i < 50; i++ {
		if early := sent[dht.Welcome](m.get(member(i).Peer, dht.Hello{Member: member(i)})); len(early) != 0 {
			t.Fatalf("a snapshot for each of many: %d", len(early))
		}
	}
	welcomes := sent[dht.Welcome](m.pass(150 * time.Millisecond))
	if len(welcomes) != 48 {
		t.Fatalf("%d are welcomed within 150 ms", len(welcomes))
	}
	for _, l := range welcomes {
		if len(l.message.Roster.Add) != 50 {
			t.Fatalf("a roster of %d", len(l.message.Roster.Add))
		}
	}
	again := sent[dht.Welcome](m.get(member(7).Peer, dht.Hello{Member: member(7)}))
	if len(again) != 1 || again[0].message.Roster.From == 0 {
		t.Errorf("who is listed needs no snapshot: %+v", again)
	}
}

func TestAMemberThatLacksTheBaseAsksTheSenderThenTheMaster(t *testing.T) {
	p := worker(t, member(0), member(1), number(0, 5))
	beat := func(n uint64) []letter[dht.RosterWanted] {
		m := dht.Cast{
			ID: dht.CastID{Root: member(1).Peer, N: n}, Kind: dht.CastBeat, Term: term(1, member(1)), Master: member(1),
			Space: dht.Range{First: dht.KeyOfPeer(p.self.Peer), Last: dht.KeyOfPeer(p.self.Peer)}, Budget: time.Second,
			Roster: dht.RosterDelta{Term: term(1, member(1)), From: 8, To: 9, Add: []dht.Member{member(9)}},
		}
		asked := sent[dht.RosterWanted](p.get(member(3).Peer, m))
		m.ID.N += 100
		asked = append(asked, sent[dht.RosterWanted](p.get(member(4).Peer, m))...)
		p.pass(time.Second)
		return asked
	}
	if asked := beat(1); len(asked) != 1 || asked[0].to != member(3).Peer {
		t.Fatalf("asked %v", recipients(asked))
	}
	if asked := beat(2); len(asked) != 1 || asked[0].to != member(1).Peer {
		t.Fatalf("then asked %v", recipients(asked))
	}
	p.get(member(1).Peer, dht.Welcome{Master: member(1), Roster: dht.RosterDelta{Term: term(1, member(1)), To: 9, Add: number(0, 7)}})
	if asked := beat(3); len(asked) != 0 || p.core.Size() != 7 {
		t.Errorf("asked %v with a roster of %d", recipients(asked), p.core.Size())
	}
	snapshot := sent[dht.Welcome](p.get(member(4).Peer, dht.RosterWanted{}))
	if len(snapshot) != 1 || len(snapshot[0].message.Roster.Add) != 7 {
		t.Errorf("it helps others: %+v", snapshot)
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

func TestOnlyPingsOfTheMasterTakeAMemberForDead(t *testing.T) {
	m := master(t, member(0), number(0, 6))
	m.step(dht.Disconnected{Peer: member(3).Peer})
	dialled := m.step(dht.Dialled{Peer: member(3).Peer, OK: true})
	if len(sent[dht.Ping](dialled)) != 1 {
		t.Fatalf("no ping: %v", dialled)
	}
	alive := m.pass(3 * time.Second) // one ping has failed
	if len(done[dht.MemberDown](alive)) != 0 {
		t.Fatal("down after one failed ping")
	}
	m.get(member(3).Peer, dht.CastAck{}) // any sign of life will do
	down := func(actions []dht.Action) bool {
		return slices.ContainsFunc(done[dht.MemberDown](actions), func(d dht.MemberDown) bool { return d.Member.Peer == member(3).Peer })
	}
	if down(m.pass(3500 * time.Millisecond)) { // the third ping would have failed by now
		t.Fatal("taken for dead in spite of a sign of life")
	}
	if !down(m.pass(5 * time.Second)) { // it left the next beat without an acknowledgement
		t.Fatal("silent, and not taken for dead")
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
	if downs := done[dht.MemberDown](m.step(dht.Dialled{Peer: member(2).Peer})); len(downs) != 1 || downs[0].Left {
		t.Fatalf("%+v", downs)
	}
	office := sent[dht.Office](m.get(member(2).Peer, dht.App{Data: []byte("I am here")}))
	if len(office) != 1 || office[0].to != member(2).Peer {
		t.Fatalf("%+v", office)
	}
	p := worker(t, member(2), member(0), number(0, 4))
	p.pass(1100 * time.Millisecond)
	hello := sent[dht.Hello](p.get(member(0).Peer, office[0].message))
	if len(hello) != 1 {
		t.Fatalf("introductions %+v", hello)
	}
	if ups := done[dht.MemberUp](m.get(member(2).Peer, hello[0].message)); len(ups) != 1 {
		t.Errorf("%+v", ups)
	}
	// It also says so when a roster without it arrives.
	p.pass(1100 * time.Millisecond)
	dropped := dht.RosterDelta{Term: term(1, member(0)), From: 1, To: 2, Remove: []task.PeerID{member(2).Peer}}
	if hello := sent[dht.Hello](p.get(member(0).Peer, dht.Welcome{Master: member(0), Roster: dropped})); len(hello) == 0 {
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
