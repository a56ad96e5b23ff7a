package dht

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// claim asks the queue for the mastership and sets when to ask again.
func (e *election) claim(s *step) {
	e.claimLater(s.now)
	e.askQueue(s)
}

// claimLater sets the time of the next claim. The pauses grow after more
// refusals in a row than a failover needs (at most 3 s of silence at the queue).
func (e *election) claimLater(now time.Time) {
	const steadyClaims = 10
	pause, most := e.config.Election.ClaimEvery, e.config.Election.ClaimMost
	for i := steadyClaims; i < e.vote.refusals && pause < most; i++ {
		pause *= 2
	}
	e.next = now.Add(min(pause, max(most, e.config.Election.ClaimEvery)))
}

func (e *election) askQueue(s *step) {
	if !e.pending {
		e.pending = true
		claim := Claim{Expected: e.granted, Resigned: e.resigned && e.granted == e.term, Ballot: max(e.term.Ballot, e.outranked)}
		if claim.Resigned {
			claim.Resignation = e.resignation
		}
		s.act(claim)
	}
}

// fencedOff hears that the queue has another master in office. That one makes
// itself heard, unless it died with the queue's word in hand: so ask.
func (e *election) fencedOff(s *step) {
	if !e.inOffice() || e.provisional || e.fenced {
		return
	}
	e.fenced = true
	e.next = s.now.Add(e.config.Election.ClaimEvery)
	e.askQueue(s)
}

// outrank hears from a member that it is in a term of one whom the queue denies. This
// pilot does not follow there; if it is master, it asks the queue for a term that the
// member follows.
func (e *election) outrank(s *step, term task.Term) {
	if e.inOffice() && term.Epoch == e.term.Epoch && e.term.Less(term) {
		e.outranked = max(e.outranked, term.Ballot)
		e.fencedOff(s)
	}
}

// answered handles the queue's word on a claim.
func (e *election) answered(s *step, m *membership, a ClaimAnswer) (v verdict) {
	e.pending = false
	wanted := e.phase == claiming || e.inOffice() && (e.provisional || e.fenced)
	newer := e.term.Less(a.Term)
	switch {
	case a.Reached && (a.Granted || wanted && a.Master.Peer == m.self.Peer):
		e.fenced = false
		if newer {
			return verdict{term: a.Term, master: m.self}
		}
	case !wanted:
	case a.Reached && newer && a.Master.Peer != "":
		return verdict{term: a.Term, master: a.Master}
	case a.Reached:
		// Refused although nothing changed: the queue heard the master less
		// than a moment ago. Perhaps this pilot is the isolated one. Or it knows
		// the queue's term only from a provisional master that outranked it.
		e.vote.refusals++
		if e.granted.Less(a.Term) {
			e.granted = a.Term
		}
		e.claimLater(s.now)
		e.lookAgain(s)
		e.lookFor(s, m, a.Master)
	case e.phase == claiming:
		// The queue cannot be asked: go on without it under a provisional
		// ballot, which any term of the queue outranks.
		term := task.Term{Epoch: e.term.Epoch, Ballot: e.term.Ballot + 1, Peer: m.self.Peer}
		return verdict{term: term, master: m.self, provisional: true}
	default:
		e.claimLater(s.now)
	}
	return verdict{}
}

// lookFor has a pilot whose claim was refused look for the master that the queue has in
// office, if that one's term does not outrank the own one: their parts of the site may
// have nobody who knows of the other.
func (e *election) lookFor(s *step, m *membership, master Member) {
	if master.Peer == "" || master.Peer == m.self.Peer || master.Peer == e.master.Peer || m.isListed(master.Peer) {
		return
	}
	if e.inOffice() {
		m.lose(s.now, master)
	} else {
		e.vote.sought = master.Peer
	}
	s.act(Dial{Member: master, Afresh: e.vote.refusals > trustedLooks})
}
