package dht

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// phase of a member with regard to the mastership.
type phase uint8

const (
	following phase = iota // a master is in office
	doubting               // it may be dead: redialled or pinged
	electing               // it is dead: somebody has to claim
	claiming               // this pilot asked the queue
	reigning               // this pilot is master
)

func (p phase) String() string {
	return [...]string{"following", "doubting", "electing", "claiming", "reigning"}[p]
}

// election is the part that knows who is master, notices when the master is
// gone, and has somebody else claim the mastership.
type election struct {
	config  Config
	granted task.Term // last term known to come from the queue
	pending bool      // a Claim is under way

	phase       phase
	term        task.Term
	master      Member
	provisional bool      // reigning without the queue's word
	lastBeat    time.Time // of the master, or sent by this master
	beats       int       // sent by this master
	next        time.Time // when the phase wants attention
	introduced  time.Time // last Hello
	welcomed    bool      // the master has answered it
	looked      time.Time // last look at a master that is held for dead
	resigned    bool      // the master said goodbye
	resignation []byte    // and signed it
	fenced      bool      // the queue has another master in office
	outranked   uint64    // by this ballot of one who is denied
	vote        vote
}

// vote is what an election has found so far.
type vote struct {
	dead     map[task.PeerID]bool
	looking  bool          // a lookup of the lowest ids is under way
	found    []Member      // by it
	failed   bool          // one of them did not answer
	doubters []task.PeerID // wait for this pilot's own look at the master
	nudged   task.PeerID   // best candidate that was told
	asked    bool          // and pinged, because it has not claimed yet
	patience int           // how often its answer is accepted for a claim
	refusals int           // of this pilot's claims
	sought   task.PeerID   // master at the queue, by a term that the own one outranks
}

// verdict is what the overlay has to carry out: another master or another term.
// The zero value stands for none.
type verdict struct {
	term        task.Term
	master      Member // this pilot itself: it takes office
	provisional bool
}

// patience is how often a candidate may answer a ping without claiming, e.g.
// because the queue refuses it, before the next one is asked.
const patience = 10

// enter begins anew under a master and a term.
func (e *election) enter(now time.Time, p phase, v verdict) {
	*e = election{
		config: e.config, granted: e.granted, pending: e.pending,
		phase: p, term: v.term, master: v.master, provisional: v.provisional, lastBeat: now,
	}
	if v.term.Ballot == 0 {
		e.granted = v.term
	}
	if v.provisional {
		e.next = now.Add(e.config.Election.ClaimEvery)
	}
}

func (e *election) inOffice() bool { return e.phase == reigning }

// beat notes that this master makes itself heard, and tells whether it calls the
// roll with that.
func (e *election) beat(now time.Time) (rollCall bool) {
	e.lastBeat = now
	e.beats++
	return (e.beats-1)%e.config.Election.RollCall == 0
}

// introduce tells the master that this pilot is there.
func (e *election) introduce(s *step, self Member) {
	e.introduced = s.now
	s.send(e.master.Peer, Hello{Member: self})
}

// introduceAgain repeats that, at most once a beat.
func (e *election) introduceAgain(s *step, self Member) {
	if s.now.Sub(e.introduced) >= e.config.Beat {
		e.introduce(s, self)
	}
}

// welcome hears that the master knows this pilot.
func (e *election) welcome(from task.PeerID) { e.welcomed = e.welcomed || from == e.master.Peer }

// tell says to a member who is in office here.
func (e *election) tell(s *step, to task.PeerID) {
	s.send(to, Office{Term: e.term, Master: e.master})
}

// heard weighs the word of somebody who lives on who is master. It is the
// master's own if it comes from it, if through others.
func (e *election) heard(s *step, m *membership, from task.PeerID, o Office) (v verdict) {
	order := o.Term.Compare(e.term)
	switch {
	case o.Master.Peer == "":
	case order < 0:
		e.tell(s, from)
	case m.denied[o.Master.Peer]:
		e.outrank(s, o.Term)
	case o.Master.Peer == m.self.Peer && order > 0:
		e.called(s, o.Term)
	case o.Master.Peer == m.self.Peer:
	case order > 0:
		return verdict{term: o.Term, master: o.Master}
	case e.inOffice():
	case from == o.Master.Peer: // it does not know this pilot
		e.welcomed = false
		e.masterAlive(s, m)
	default:
		e.lookAgain(s) // somebody else still hears it
	}
	return verdict{}
}

// called hears that this pilot is in office by a term of which it does not know: the
// queue has chosen it, or its answer was lost. The queue's word decides; one that was put
// back to a backup learns of the term by the claim.
func (e *election) called(s *step, term task.Term) {
	if term.Ballot == 0 && e.granted.Less(term) {
		e.granted = term
	}
	switch {
	case e.inOffice():
		e.fencedOff(s)
	case e.phase != claiming:
		e.phase = claiming
		e.claim(s)
	}
}

// masterAlive notes a sign of life of the master in office and ends an
// election that was a mistake.
func (e *election) masterAlive(s *step, m *membership) {
	if e.inOffice() || e.resigned {
		return
	}
	was := e.phase
	e.lastBeat, e.phase = s.now, following
	if was != following {
		for _, peer := range e.vote.doubters {
			e.tell(s, peer)
		}
		e.vote = vote{}
		m.lookSoon(s.now)
	}
	if was != following || !e.welcomed {
		m.known.put(e.master)
		e.introduceAgain(s, m.self)
	}
}

// suspectMaster starts to doubt: the connection broke, or somebody says so.
func (e *election) suspectMaster(s *step) {
	if e.phase != following {
		return
	}
	e.phase = doubting
	e.next = s.now.Add(e.config.PingTimeout)
	s.act(Dial{Member: e.master})
	s.send(e.master.Peer, Ping{})
}

// lostMaster hears that the connection to the master is broken. The last Hello
// is perhaps lost, too: at the master's next sign of life another one goes.
func (e *election) lostMaster(s *step) {
	e.introduced, e.welcomed = time.Time{}, false
	e.suspectMaster(s)
}

// trustedLooks is after how many refused claims an open connection to a master that
// lives at the queue is taken to hang.
const trustedLooks = 2

// lookAgain looks at a master that this pilot holds for dead and others do not.
func (e *election) lookAgain(s *step) {
	looking := e.phase == electing || e.phase == claiming
	if !looking || e.resigned || s.now.Sub(e.looked) < e.config.PingTimeout {
		return
	}
	e.looked = s.now
	s.act(Dial{Member: e.master, Afresh: e.vote.refusals > trustedLooks})
}

// masterLeft hears the master's goodbye.
func (e *election) masterLeft(s *step, m *membership, resignation []byte) {
	e.resigned, e.resignation = true, resignation
	if e.phase == following || e.phase == doubting {
		e.masterDead(s, m)
	}
}

// masterDead begins an election.
func (e *election) masterDead(s *step, m *membership) {
	if e.vote.dead == nil {
		e.vote.dead = make(map[task.PeerID]bool)
	}
	e.vote.dead[e.master.Peer] = true
	e.phase = electing
	e.vote.doubters = nil
	e.elect(s, m)
}

// Bottom is a text whose SHA-256 begins with 32 zero bits. kad-dht hashes what it
// looks up, so its lookup of this text finds the members nearest to the bottom of
// the key space: those with the lowest ids, in order.
const Bottom = "pilotage bottom of the key space 4l2hk9f"

// elect looks for the live member with the lowest Kademlia id.
func (e *election) elect(s *step, m *membership) {
	without := slices.Sorted(maps.Keys(e.vote.dead))
	for _, peer := range slices.Sorted(maps.Keys(m.suspects)) {
		if m.isSuspect(s.now, peer) && !e.vote.dead[peer] {
			without = append(without, peer)
		}
	}
	e.vote.nudged, e.vote.looking, e.vote.failed = "", true, false
	e.next = s.now.Add(e.config.Election.Look)
	s.act(Lookup{Target: Bottom, Without: without})
}

// lookedUp takes the members with the lowest ids.
func (e *election) lookedUp(s *step, m *membership, found []Member) {
	if e.phase == electing && e.vote.looking {
		e.vote.looking, e.vote.found = false, found
		e.choose(s, m)
	}
}

// choose tells the best of the candidates to claim, or claims.
func (e *election) choose(s *step, m *membership) {
	best := entry{key: m.key, member: m.self}
	candidates := e.vote.found
	if len(candidates) == 0 {
		candidates = membersOf(m.known.sorted)
	}
	for _, other := range candidates {
		key := KeyOfPeer(other.Peer)
		if key.Less(best.key) && !e.vote.dead[other.Peer] && !m.unreachable(s.now, other.Peer) {
			best = entry{key: key, member: other}
		}
	}
	switch {
	case best.member.Peer != m.self.Peer:
		e.vote.nudged, e.vote.asked, e.vote.patience = best.member.Peer, false, patience
		e.next = s.now.Add(e.config.Election.Nudge)
		m.learn(s.now, []Member{best.member})
		s.send(best.member.Peer, MasterDead{Term: e.term})
		s.act(Dial{Member: best.member})
	case e.vote.failed:
		e.elect(s, m) // without those that failed there may be others
	default:
		e.phase, e.vote.nudged = claiming, ""
		e.claim(s)
	}
}

// urge deals with a candidate that has not claimed yet: it is asked for a sign
// of life, and without one somebody else is the best candidate.
func (e *election) urge(s *step, m *membership) {
	if e.vote.looking {
		e.lookedUp(s, m, nil) // go on with those that are known
		return
	}
	if e.vote.asked {
		e.passOver(s, m, e.vote.nudged)
		return
	}
	e.vote.asked = true
	e.next = s.now.Add(e.config.PingTimeout)
	s.send(e.vote.nudged, MasterDead{Term: e.term})
	s.send(e.vote.nudged, Ping{})
}

// passOver goes on without a candidate, which had its chance.
func (e *election) passOver(s *step, m *membership, peer task.PeerID) {
	e.vote.dead[peer], e.vote.failed = true, true
	e.choose(s, m)
}

// heardCandidate accepts an answer of the best candidate in place of a claim,
// for some time.
func (e *election) heardCandidate(now time.Time, from task.PeerID) {
	if v := &e.vote; e.phase == electing && from == v.nudged && v.patience > 0 && v.asked {
		v.asked = false
		v.patience--
		e.next = now.Add(e.config.Election.Nudge)
	}
}

// nudge hears that somebody takes the master for dead: look for oneself before
// claiming, and tell who nudged if the master lives.
func (e *election) nudge(s *step, from task.PeerID, term task.Term) {
	switch {
	case term.Less(e.term) || e.inOffice():
		e.tell(s, from)
	case e.phase == following || e.phase == doubting:
		if !slices.Contains(e.vote.doubters, from) {
			e.vote.doubters = append(e.vote.doubters, from)
		}
		e.suspectMaster(s)
	}
}

// dialled draws conclusions from a dial of the master or of a candidate.
func (e *election) dialled(s *step, m *membership, d Dialled) {
	switch {
	case d.Peer == e.vote.nudged && e.phase == electing && !d.OK:
		e.passOver(s, m, d.Peer)
	case d.Peer == e.vote.sought && e.phase == claiming && d.OK:
		e.tell(s, d.Peer) // so that the office gets a term that both follow
	case d.Peer != e.master.Peer:
	case d.OK && e.phase == doubting: // connected again: a ping decides
		e.next = s.now.Add(e.config.PingTimeout)
		s.send(e.master.Peer, Ping{})
		e.introduce(s, m.self)
	case d.OK && e.phase != following:
		s.send(e.master.Peer, Ping{})
		e.introduceAgain(s, m.self)
	case !d.OK && e.phase == doubting:
		e.masterDead(s, m)
	case !d.OK && e.phase == following:
		// A beat that came through others made up for the doubt. Look again.
		e.suspectMaster(s)
	}
}

func (e *election) deadline() time.Time {
	switch e.phase {
	case reigning:
		beat := e.lastBeat.Add(e.config.Beat)
		if (e.provisional || e.fenced) && e.next.Before(beat) {
			return e.next
		}
		return beat
	case following:
		return e.lastBeat.Add(e.config.Election.Silence)
	default:
		return e.next
	}
}

// pass carries out what the mastership wants now, and tells whether this master
// is to make itself heard.
func (e *election) pass(s *step, m *membership) (beat bool) {
	if s.now.Before(e.deadline()) {
		return false
	}
	switch e.phase {
	case reigning:
		if (e.provisional || e.fenced) && !s.now.Before(e.next) {
			e.claim(s)
		}
		return !s.now.Before(e.lastBeat.Add(e.config.Beat))
	case following:
		e.suspectMaster(s)
	case doubting:
		e.masterDead(s, m) // neither the redial nor the ping was answered
	case electing:
		e.urge(s, m)
	case claiming:
		e.claim(s)
	}
	return false
}
