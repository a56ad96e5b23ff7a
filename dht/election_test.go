package dht_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// Ten members by id: ids[0] is the first in line for the office.
var ids = sorted(10)

// lose lets a worker find out that its master was killed.
func (p *one) lose(master dht.Member) []dht.Action {
	actions := p.step(dht.Disconnected{Peer: master.Peer})
	return append(actions, p.step(dht.Dialled{Peer: master.Peer})...)
}

func (p *one) mastership(t task.Term, m dht.Member) {
	p.t.Helper()
	if who, current := p.core.Master(); who.Peer != m.Peer || current != t {
		p.t.Fatalf("%s; want %s under %s", p.core, m.Pilot, t)
	}
}

func TestTheLowestIdClaimsAtOnce(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	claims := done[dht.Claim](p.lose(ids[5]))
	if len(claims) != 1 || claims[0].Expected != term(1, ids[5]) || claims[0].Resigned || claims[0].Ballot != 0 {
		t.Fatalf("claims %+v", claims)
	}
	actions := p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[0]), Master: ids[0]})
	changes := done[dht.MasterChanged](actions)
	if len(changes) != 1 || !changes[0].Self || changes[0].Provisional || changes[0].Term != term(2, ids[0]) {
		t.Fatalf("%+v", changes)
	}
	if ups := done[dht.MemberUp](actions); len(ups) != 8 {
		t.Errorf("%d members are up, want 8: all but itself and the dead master", len(ups))
	}
	if downs := done[dht.MemberDown](actions); len(downs) != 0 {
		t.Errorf("down are %+v: whether its predecessor is dead the queue decides", downs)
	}
	casts := sent[dht.Cast](actions)
	if len(casts) == 0 || casts[0].message.Kind != dht.CastBeat || !casts[0].message.Reply {
		t.Fatalf("the first beat calls the roll: %+v", casts)
	}
	if gone := casts[0].message.Gone; !slices.Equal(gone, []task.PeerID{ids[5].Peer}) {
		t.Errorf("the first beat says that the dead master is gone: %+v", gone)
	}
}

func TestOthersNudgeTheLowestAndGoOnWithoutIt(t *testing.T) {
	p := worker(t, ids[2], ids[5], ids)
	nudges := sent[dht.MasterDead](p.lose(ids[5]))
	if len(nudges) != 1 || nudges[0].to != ids[0].Peer {
		t.Fatalf("nudged %+v", nudges)
	}
	// It answers for a while without claiming: the queue refuses it.
	p.pass(1600 * time.Millisecond)
	p.get(ids[0].Peer, dht.Pong{})
	if other := sent[dht.MasterDead](p.pass(1400 * time.Millisecond)); len(other) != 0 {
		t.Fatalf("nudged %+v although the best one lives", other)
	}
	// Then it is silent, and the next one cannot be dialled.
	next := sent[dht.MasterDead](p.pass(1200 * time.Millisecond))
	if len(next) == 0 || next[len(next)-1].to != ids[1].Peer {
		t.Fatalf("then nudged %+v", next)
	}
	if claims := done[dht.Claim](p.step(dht.Dialled{Peer: ids[1].Peer})); len(claims) != 1 {
		t.Fatalf("claims %+v", claims)
	}
}

func TestAMasterThatIsSilentIsProbed(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.beat(ids[5], term(1, ids[5]), 1)
	if actions := p.pass(3400 * time.Millisecond); len(sent[dht.Ping](actions)) != 0 {
		t.Fatal("doubted too early")
	}
	doubts := p.pass(200 * time.Millisecond)
	if len(sent[dht.Ping](doubts)) != 1 || len(done[dht.Dial](doubts)) != 1 {
		t.Fatalf("after 3.5 s: %v", doubts)
	}
	p.step(dht.Dialled{Peer: ids[5].Peer, OK: true}) // a hung process still has its port open
	if claims := done[dht.Claim](p.pass(1100 * time.Millisecond)); len(claims) != 1 {
		t.Fatalf("claims %+v", claims)
	}
}

func TestAnAnswerEndsTheDoubt(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.get(ids[3].Peer, dht.MasterDead{Term: term(1, ids[5])})
	p.step(dht.Dialled{Peer: ids[5].Peer, OK: true})
	told := sent[dht.Office](p.get(ids[5].Peer, dht.Pong{}))
	if len(told) != 1 || told[0].to != ids[3].Peer || told[0].message.Master.Peer != ids[5].Peer {
		t.Errorf("who doubted is told %+v", told)
	}
	if claims := done[dht.Claim](p.pass(2500 * time.Millisecond)); len(claims) != 0 {
		t.Fatalf("claims %+v", claims)
	}
}

// A beat that was still on its way through others does not hide the death.
func TestABeatUnderWayDoesNotDelayTheElection(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.step(dht.Disconnected{Peer: ids[5].Peer})
	p.beat(ids[5], term(1, ids[5]), 1)
	p.step(dht.Dialled{Peer: ids[5].Peer})
	if claims := done[dht.Claim](p.step(dht.Dialled{Peer: ids[5].Peer})); len(claims) != 1 {
		t.Fatalf("%s does not claim", p.core)
	}
}

func TestAMasterHeldForDeadSaysSo(t *testing.T) {
	m := master(t, ids[5], ids)
	told := sent[dht.Office](m.get(ids[2].Peer, dht.MasterDead{Term: term(1, ids[5])}))
	if len(told) != 1 || told[0].to != ids[2].Peer {
		t.Fatalf("answer %+v", told)
	}
	for name, p := range map[string]*one{"electing": worker(t, ids[2], ids[5], ids), "claiming": worker(t, ids[0], ids[5], ids)} {
		p.lose(ids[5])
		hello := sent[dht.Hello](p.get(ids[5].Peer, told[0].message))
		if len(hello) > 1 {
			t.Errorf("%s: %d introductions", name, len(hello))
		}
		p.mastership(term(1, ids[5]), ids[5])
		p.step(dht.ClaimAnswer{Reached: true, Term: term(1, ids[5]), Master: ids[5]})
		if claims := done[dht.Claim](p.pass(2 * time.Second)); len(claims) != 0 {
			t.Errorf("%s: claims although the master lives", name)
		}
	}
}

// Somebody else still hears the master: look again before going on.
func TestAnothersWordMakesOneLookAgain(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.lose(ids[5])
	p.pass(100 * time.Millisecond)
	dials := done[dht.Dial](p.get(ids[3].Peer, dht.Office{Term: term(1, ids[5]), Master: ids[5]}))
	if len(dials) != 1 || dials[0].Member.Peer != ids[5].Peer {
		t.Fatalf("dials %+v", dials)
	}
	if pings := sent[dht.Ping](p.step(dht.Dialled{Peer: ids[5].Peer, OK: true})); len(pings) != 1 {
		t.Fatalf("pings %+v", pings)
	}
	p.get(ids[5].Peer, dht.Pong{})
	if claims := done[dht.Claim](p.pass(2 * time.Second)); len(claims) != 0 {
		t.Error("still claims")
	}
}

// A pilot that the queue refuses again and again looks for the master over a
// new connection: the one that is open may hang since the network broke.
func TestRefusedClaimantDialsAfresh(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.lose(ids[5])
	var afresh []bool
	for range 6 {
		for _, dial := range done[dht.Dial](p.step(dht.ClaimAnswer{Reached: true, Term: term(1, ids[5]), Master: ids[5]})) {
			afresh = append(afresh, dial.Afresh)
		}
		p.pass(2 * time.Second)
	}
	if want := []bool{false, false, true, true, true, true}; !slices.Equal(afresh, want) {
		t.Errorf("dialled afresh: %v, want %v", afresh, want)
	}
}

func TestALowerTermIsIgnored(t *testing.T) {
	p := worker(t, ids[2], ids[5], ids)
	p.get(ids[1].Peer, dht.Office{Term: term(3, ids[1]), Master: ids[1]})
	p.mastership(term(3, ids[1]), ids[1])
	actions := p.get(ids[4].Peer, dht.Cast{
		ID: dht.CastID{Root: ids[5].Peer, N: 1}, Kind: dht.CastPayload, Term: term(1, ids[5]), Master: ids[5],
		Space: dht.WholeSpace(), Budget: time.Second, Payload: []byte("old"),
	})
	told := sent[dht.Office](actions)
	if len(told) != 2 || len(done[dht.Deliver](actions)) != 0 || len(sent[dht.CastAck](actions)) != 0 {
		t.Errorf("an old master's broadcast led to %v", actions)
	}
	if got := recipients(told); !slices.Contains(got, ids[5].Peer) || told[0].message.Term != term(3, ids[1]) {
		t.Errorf("the deposed master is not told, but %v", got)
	}
	p.get(ids[4].Peer, dht.Office{Term: term(1, ids[5]), Master: ids[5]})
	p.mastership(term(3, ids[1]), ids[1])
}

func TestADeposedMasterStepsDown(t *testing.T) {
	m := master(t, ids[5], ids)
	actions := m.get(ids[2].Peer, dht.Office{Term: term(2, ids[0]), Master: ids[0]})
	changes := done[dht.MasterChanged](actions)
	if len(changes) != 1 || changes[0].Self || changes[0].Master.Peer != ids[0].Peer {
		t.Fatalf("%+v", changes)
	}
	if hello := sent[dht.Hello](actions); len(hello) != 1 || hello[0].to != ids[0].Peer {
		t.Errorf("introductions %+v", hello)
	}
	if casts := sent[dht.Cast](m.pass(2 * time.Second)); len(casts) != 0 {
		t.Errorf("still beats: %d", len(casts))
	}
}

// Of two claimants one is granted; the other follows, or was granted later
// and wins.
func TestTwoClaimants(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.lose(ids[5])
	p.step(dht.ClaimAnswer{Reached: true, Term: term(2, ids[1]), Master: ids[1]})
	p.mastership(term(2, ids[1]), ids[1])

	q := worker(t, ids[0], ids[5], ids)
	q.lose(ids[5])
	q.get(ids[1].Peer, dht.Office{Term: term(2, ids[1]), Master: ids[1]}) // while it asks
	q.mastership(term(2, ids[1]), ids[1])
	q.step(dht.ClaimAnswer{Reached: true, Term: term(2, ids[1]), Master: ids[1]})
	q.mastership(term(2, ids[1]), ids[1])
	q.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(3, ids[0]), Master: ids[0]})
	q.mastership(term(3, ids[0]), ids[0])

	r := worker(t, ids[0], ids[5], ids)
	r.lose(ids[5])
	r.get(ids[1].Peer, dht.Office{Term: term(3, ids[1]), Master: ids[1]})
	r.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[0]), Master: ids[0]}) // overtaken
	r.mastership(term(3, ids[1]), ids[1])
}

func TestProvisionalThenConfirmed(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.lose(ids[5])
	changes := done[dht.MasterChanged](p.step(dht.ClaimAnswer{}))
	ballot := task.Term{Epoch: 1, Ballot: 1, Peer: ids[0].Peer}
	if len(changes) != 1 || !changes[0].Provisional || changes[0].Term != ballot {
		t.Fatalf("%+v", changes)
	}
	claims := done[dht.Claim](p.pass(600 * time.Millisecond))
	if len(claims) != 1 || claims[0].Expected != term(1, ids[5]) || claims[0].Ballot != 1 {
		t.Fatalf("claims %+v", claims)
	}
	actions := p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[0]), Master: ids[0]})
	if changes := done[dht.MasterChanged](actions); len(changes) != 1 || changes[0].Provisional || changes[0].Term.Epoch != 2 {
		t.Fatalf("%+v", changes)
	}
	if ups := done[dht.MemberUp](actions); len(ups) != 0 {
		t.Errorf("members come up twice: %d", len(ups))
	}
	if claims := done[dht.Claim](p.pass(5 * time.Second)); len(claims) != 0 {
		t.Error("claims although confirmed")
	}
}

// A site whose master of term 2 died young knows that term by a provisional ballot
// only: the queue's refusal names it, and the next claim is against it.
func TestARefusalTellsTheTermToClaimAgainst(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	ballot := task.Term{Epoch: 2, Ballot: 1, Peer: ids[3].Peer}
	p.get(ids[3].Peer, dht.Office{Term: ballot, Master: ids[3]})
	p.mastership(ballot, ids[3])
	claims := done[dht.Claim](p.lose(ids[3]))
	if len(claims) != 1 || claims[0].Expected != term(1, ids[5]) {
		t.Fatalf("claims %+v", claims)
	}
	p.step(dht.ClaimAnswer{Reached: true, Term: term(2, ids[1]), Master: ids[1]})
	claims = done[dht.Claim](p.pass(600 * time.Millisecond))
	if len(claims) != 1 || claims[0].Expected != term(2, ids[1]) {
		t.Fatalf("then claims %+v", claims)
	}
}

// A part of a site that was cut off had a provisional master, who died: whoever claims
// its office looks for the master that the queue has, of whom nobody in this part may
// know, and tells it of the term that outranks its own.
func TestAClaimantLooksForTheQueuesMaster(t *testing.T) {
	p := worker(t, ids[0], ids[5], []dht.Member{ids[0], ids[3], ids[5]})
	ballot := task.Term{Epoch: 2, Ballot: 1, Peer: ids[3].Peer}
	p.get(ids[3].Peer, dht.Office{Term: ballot, Master: ids[3]})
	p.lose(ids[3])
	refusal := dht.ClaimAnswer{Reached: true, Term: term(2, ids[8]), Master: ids[8]}
	looks := func(afresh bool) {
		t.Helper()
		dials := done[dht.Dial](p.out)
		if !slices.ContainsFunc(dials, func(d dht.Dial) bool { return d.Member.Peer == ids[8].Peer && d.Afresh == afresh }) {
			t.Fatalf("dials %+v", dials)
		}
	}
	p.step(refusal)
	looks(false)
	p.step(dht.Dialled{Peer: ids[8].Peer}) // the parts have not met yet
	if offices := sent[dht.Office](p.out); len(offices) != 0 {
		t.Fatalf("tells %+v", offices)
	}
	for range 2 {
		p.pass(600 * time.Millisecond)
		p.step(refusal)
	}
	looks(true)
	offices := sent[dht.Office](p.step(dht.Dialled{Peer: ids[8].Peer, OK: true}))
	if len(offices) != 1 || offices[0].to != ids[8].Peer || offices[0].message.Term != ballot {
		t.Fatalf("tells %+v", offices)
	}
	p.get(ids[8].Peer, dht.Office{Term: term(3, ids[8]), Master: ids[8]})
	p.mastership(term(3, ids[8]), ids[8])
}

// Members follow a provisional master whom the queue denies, by a term that outranks the
// one in office: the master asks the queue for a term that they follow.
func TestAMasterOutranksOneWhoIsDenied(t *testing.T) {
	m := master(t, ids[5], ids)
	m.step(dht.Denied{Peers: []task.PeerID{ids[3].Peer}})
	ballot := task.Term{Epoch: 1, Ballot: 2, Peer: ids[3].Peer}
	claims := done[dht.Claim](m.get(ids[1].Peer, dht.Office{Term: ballot, Master: ids[3]}))
	if len(claims) != 1 || claims[0].Expected != term(1, ids[5]) || claims[0].Ballot != 2 {
		t.Fatalf("claims %+v", claims)
	}
	m.mastership(term(1, ids[5]), ids[5])
	m.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[5]), Master: ids[5]})
	m.mastership(term(2, ids[5]), ids[5])
	m.get(ids[1].Peer, dht.Office{Term: ballot, Master: ids[3]})
	offices := sent[dht.Office](m.out)
	if claims := done[dht.Claim](m.out); len(claims) != 0 || len(offices) != 1 || offices[0].message.Term != term(2, ids[5]) {
		t.Errorf("a member that has not heard of that: claims %+v, is told %+v", claims, offices)
	}

	p := worker(t, ids[0], ids[5], ids)
	p.step(dht.Denied{Peers: []task.PeerID{ids[3].Peer}})
	p.get(ids[1].Peer, dht.Office{Term: ballot, Master: ids[3]})
	if claims := done[dht.Claim](p.out); len(claims) != 0 {
		t.Errorf("who is not master claims %+v", claims)
	}
	p.mastership(term(1, ids[5]), ids[5])
}

func TestAProvisionalMasterFollowsTheQueuesMaster(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	p.lose(ids[5])
	p.step(dht.ClaimAnswer{})
	p.pass(600 * time.Millisecond)
	p.step(dht.ClaimAnswer{Reached: true, Term: term(2, ids[3]), Master: ids[3]})
	p.mastership(term(2, ids[3]), ids[3])
}

func TestALeavingMasterIsReplacedAtOnce(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	claims := done[dht.Claim](p.get(ids[5].Peer, dht.Bye{}))
	if len(claims) != 1 || !claims[0].Resigned || claims[0].Expected != term(1, ids[5]) {
		t.Fatalf("claims %+v", claims)
	}
	p.beat(ids[5], term(1, ids[5]), 7) // its last one, through others
	p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[0]), Master: ids[0]})
	p.mastership(term(2, ids[0]), ids[0])

	q := worker(t, ids[2], ids[5], ids)
	q.get(ids[5].Peer, dht.Bye{})
	q.beat(ids[5], term(1, ids[5]), 7)
	if nudges := sent[dht.MasterDead](q.pass(1600 * time.Millisecond)); len(nudges) == 0 {
		t.Error("a late beat of a master that said goodbye ended the election")
	}

	m := master(t, ids[5], ids)
	byes := recipients(sent[dht.Bye](m.step(dht.Leave{})))
	if !slices.Contains(byes, ids[0].Peer) || len(byes) != 9 {
		t.Errorf("the next in line has to hear of it; told were %v", byes)
	}
	if answer := m.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(9, ids[5]), Master: ids[5]}); len(answer) != 0 {
		t.Errorf("a leaving pilot takes office: %v", answer)
	}
}

// The queue keeps refusing: after the time a failover takes, ask seldom.
func TestRefusedClaimsSlowDown(t *testing.T) {
	p := worker(t, ids[0], ids[5], ids)
	asked := len(done[dht.Claim](p.lose(ids[5])))
	var at []time.Duration
	start := p.now
	for p.now.Sub(start) < 2*time.Minute {
		if asked > 0 {
			at = append(at, p.now.Sub(start))
			p.step(dht.ClaimAnswer{Reached: true, Term: term(1, ids[5]), Master: ids[5]})
		}
		asked = len(done[dht.Claim](p.pass(100 * time.Millisecond)))
	}
	early := len(slices.DeleteFunc(slices.Clone(at), func(d time.Duration) bool { return d > 5*time.Second }))
	if early < 10 {
		t.Errorf("%d claims in the first 5 s", early)
	}
	if len(at) > 30 {
		t.Errorf("%d claims in two minutes", len(at))
	}
}

// A claim was granted, and the new master died before anybody heard of it.
func TestAFencedMasterAsksTheQueue(t *testing.T) {
	m := master(t, ids[5], ids)
	if claims := done[dht.Claim](m.step(dht.Fenced{Term: term(1, ids[5])})); len(claims) != 1 {
		t.Fatalf("claims %+v", claims)
	}
	m.step(dht.ClaimAnswer{Reached: true, Term: term(2, ids[0]), Master: ids[0]})
	m.mastership(term(2, ids[0]), ids[0])
	m.step(dht.Disconnected{Peer: ids[0].Peer})
	m.step(dht.Dialled{Peer: ids[0].Peer})
	for i := range 5 { // those before it in line are dead, too
		m.step(dht.Dialled{Peer: ids[i].Peer})
	}
	if claims := done[dht.Claim](m.out); len(claims) != 1 || claims[0].Expected != term(2, ids[0]) {
		t.Fatalf("%s claims %+v", m.core, claims)
	}
}

// The queue's word on a term comes late to a master that is in office by the next one.
func TestAMasterIsNotFencedByWordOnItsEarlierTerm(t *testing.T) {
	m := master(t, ids[5], ids)
	m.step(dht.Fenced{Term: term(1, ids[5])})
	m.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[5]), Master: ids[5]})
	m.mastership(term(2, ids[5]), ids[5])
	if claims := done[dht.Claim](m.step(dht.Fenced{Term: term(1, ids[5])})); len(claims) != 0 {
		t.Errorf("it asks for what it has: %+v", claims)
	}
	if claims := done[dht.Claim](m.step(dht.Fenced{Term: term(2, ids[5])})); len(claims) != 1 {
		t.Errorf("claims when the queue refuses its term: %+v", claims)
	}
}

// The queue may choose a master that has not claimed, as after a trial of a site: it
// learns that from those whom the queue has told, and asks.
func TestWhoIsCalledMasterAsksTheQueue(t *testing.T) {
	p := worker(t, ids[3], ids[5], ids)
	p.get(ids[1].Peer, dht.Office{Term: term(2, ids[3]), Master: ids[3]})
	if claims := done[dht.Claim](p.out); len(claims) != 1 {
		t.Fatalf("claims %+v", claims)
	}
	p.get(ids[2].Peer, dht.Office{Term: term(2, ids[3]), Master: ids[3]})
	if claims := done[dht.Claim](p.out); len(claims) > 0 {
		t.Errorf("it asks again before it is answered: %+v", claims)
	}
	p.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[3]), Master: ids[3]})
	p.mastership(term(2, ids[3]), ids[3])

	m := master(t, ids[5], ids)
	m.get(ids[1].Peer, dht.Office{Term: term(2, ids[5]), Master: ids[5]})
	if claims := done[dht.Claim](m.out); len(claims) != 1 {
		t.Fatalf("a master of an older term claims %+v", claims)
	}
	m.step(dht.ClaimAnswer{Reached: true, Granted: true, Term: term(2, ids[5]), Master: ids[5]})
	m.mastership(term(2, ids[5]), ids[5])
}

// A pilot that is master no more, and looks for the one that it follows since, tells that
// to those who still take it for their master: its pongs keep them for no longer.
func TestWhoTakesAnotherForItsMasterIsTold(t *testing.T) {
	was := worker(t, ids[2], ids[5], ids)
	second := term(2, ids[5])
	was.get(ids[4].Peer, dht.Office{Term: second, Master: ids[5]})
	follower := worker(t, ids[1], ids[2], ids)
	for _, event := range []dht.Event{dht.Disconnected{Peer: ids[5].Peer}, dht.Dialled{Peer: ids[5].Peer}} {
		was.step(event) // it doubts, then it elects
		told := sent[dht.Office](was.get(ids[1].Peer, dht.Hello{Member: ids[1]}))
		if len(told) != 1 || told[0].to != ids[1].Peer || told[0].message.Term != second {
			t.Fatalf("after %+v it tells %+v", event, told)
		}
	}
	if pings := sent[dht.Ping](follower.pass(3600 * time.Millisecond)); len(pings) != 1 {
		t.Fatalf("a follower that hears nothing sends %+v", pings)
	}
	hello := sent[dht.Hello](follower.get(ids[2].Peer, dht.Pong{}))
	if len(hello) != 1 {
		t.Fatalf("after a pong a follower introduces itself with %+v", hello)
	}
	follower.get(ids[2].Peer, sent[dht.Office](was.get(ids[1].Peer, hello[0].message))[0].message)
	follower.mastership(second, ids[5])
	if nudges := sent[dht.MasterDead](follower.pass(5 * time.Second)); len(nudges) == 0 || nudges[0].to != ids[0].Peer {
		t.Errorf("a follower of a dead master tells %+v", nudges)
	}
}
