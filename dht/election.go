package dht

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// patience is how often a candidate may answer a ping without claiming, e.g.
// because the queue refuses it, before the next one is asked.
const patience = 10

// steadyClaims is how many claims in a row may be refused before the pauses
// between them grow: more than a failover needs (at most 3 s of silence at the queue).
const steadyClaims = 10

// trustedLooks is how often a pilot whose claims are refused looks for the
// master over a connection that is open; then it takes it for hung.
const trustedLooks = 2

// suspectMaster starts to doubt: the connection broke, or somebody says so.
func (o *Overlay) suspectMaster() {
	if o.office.phase != following || o.leaving {
		return
	}
	o.office.phase = doubting
	o.office.next = o.now.Add(o.config.PingTimeout)
	o.act(Dial{Member: o.office.master})
	o.ping(o.office.master.Peer)
}

// lookAgain looks at a master that this pilot holds for dead and others do not.
func (o *Overlay) lookAgain() {
	looking := o.office.phase == electing || o.office.phase == claiming
	if !looking || o.office.resigned || o.now.Sub(o.office.looked) < o.config.PingTimeout {
		return
	}
	o.office.looked = o.now
	o.act(Dial{Member: o.office.master, Afresh: o.office.refusals > trustedLooks})
}

// lookFor has a provisional master look for the one that the queue has in
// office: their parts of the site may have nobody who knows of the other.
func (o *Overlay) lookFor(master Member) {
	if o.inOffice() && o.office.provisional && master.Peer != "" && master.Peer != o.self.Peer && !o.roster.Has(master.Peer) {
		o.lose(master)
		o.act(Dial{Member: master})
	}
}

// masterDead begins an election.
func (o *Overlay) masterDead() {
	if o.office.dead == nil {
		o.office.dead = make(map[task.PeerID]bool)
	}
	o.office.dead[o.office.master.Peer] = true
	o.office.phase = electing
	o.office.doubters = nil
	o.elect()
}

// elect finds the live member with the lowest Kademlia id (DESIGN section 4).
func (o *Overlay) elect() {
	best := &entry{o.selfKey, o.self}
	for _, roster := range []*Roster{&o.roster, &o.contacts} {
		for _, e := range roster.sorted {
			if !e.key.Less(best.key) {
				break
			}
			if peer := e.member.Peer; !o.office.dead[peer] && !o.unreachable(peer) {
				best = e
			}
		}
	}
	if best.member.Peer == o.self.Peer {
		o.office.phase, o.office.nudged = claiming, ""
		o.claimAgainLater()
		o.askQueue()
		return
	}
	o.office.nudged, o.office.asked, o.office.patience = best.member.Peer, false, patience
	o.office.next = o.now.Add(o.config.Nudge)
	o.send(best.member.Peer, MasterDead{Term: o.office.term})
	o.act(Dial{Member: best.member})
}

// urge deals with a candidate that has not claimed yet: it is asked for a sign
// of life, and without one somebody else is the best candidate.
func (o *Overlay) urge() {
	if !o.office.asked {
		o.office.asked = true
		o.office.next = o.now.Add(o.config.PingTimeout)
		o.send(o.office.nudged, MasterDead{Term: o.office.term})
		o.ping(o.office.nudged)
		return
	}
	o.office.dead[o.office.nudged] = true // it had its chance
	o.elect()
}

// claimAgainLater sets the time of the next claim.
func (o *Overlay) claimAgainLater() {
	pause := o.config.ClaimEvery
	for i := steadyClaims; i < o.office.refusals && pause < o.config.ClaimMost; i++ {
		pause *= 2
	}
	o.office.next = o.now.Add(min(pause, max(o.config.ClaimMost, o.config.ClaimEvery)))
}

func (o *Overlay) askQueue() {
	if o.office.pending {
		return
	}
	o.office.pending = true
	o.act(Claim{Expected: o.granted, Resigned: o.office.resigned && o.granted == o.office.term, Ballot: o.office.term.Ballot})
}

// fencedOff hears that the queue has another master in office. That one makes
// itself heard, unless it died with the queue's word in hand: so ask.
func (o *Overlay) fencedOff() {
	if !o.inOffice() || o.office.provisional || o.office.fenced || o.leaving {
		return
	}
	o.office.fenced = true
	o.office.next = o.now.Add(o.config.ClaimEvery)
	o.askQueue()
}

// claimAnswered handles the queue's word on a claim.
func (o *Overlay) claimAnswered(e ClaimAnswer) {
	o.office.pending = false
	if o.leaving {
		return
	}
	wanted := o.office.phase == claiming || o.inOffice() && (o.office.provisional || o.office.fenced)
	newer := o.office.term.Less(e.Term)
	switch {
	case e.Reached && (e.Granted || wanted && e.Master.Peer == o.self.Peer):
		o.office.fenced = false
		if newer {
			o.takeOffice(e.Term, false)
		}
	case !wanted:
	case e.Reached && newer && e.Master.Peer != "":
		o.follow(e.Term, e.Master)
	case e.Reached:
		// Refused although nothing changed: the queue heard the master less
		// than a moment ago. Perhaps this pilot is the isolated one. Or it knows
		// the queue's term only from a provisional master that outranked it.
		o.office.refusals++
		if o.granted.Less(e.Term) {
			o.granted = e.Term
		}
		o.claimAgainLater()
		o.lookAgain()
		o.lookFor(e.Master)
	case o.office.phase == claiming:
		// The queue cannot be asked: go on without it under a provisional
		// ballot, which any term of the queue outranks.
		term := task.Term{Epoch: o.office.term.Epoch, Ballot: o.office.term.Ballot + 1, Peer: o.self.Peer}
		o.takeOffice(term, true)
	default:
		o.claimAgainLater()
	}
}

// toldMasterDead is a nudge: look for oneself before claiming, and tell who
// nudged if the master lives.
func (o *Overlay) toldMasterDead(from task.PeerID, m MasterDead) {
	if m.Term.Less(o.office.term) || o.inOffice() {
		o.sendOffice(from)
		return
	}
	if o.office.phase == following || o.office.phase == doubting {
		if !slices.Contains(o.office.doubters, from) {
			o.office.doubters = append(o.office.doubters, from)
		}
		o.suspectMaster()
	}
}

// dialled handles the answer to a Dial.
func (o *Overlay) dialled(e Dialled) {
	if e.OK {
		o.trust(e.Peer)
	}
	switch {
	case o.leaving:
	case o.inOffice():
		o.dialledMember(e)
	case e.Peer == o.office.master.Peer:
		o.dialledMaster(e.OK)
	case e.Peer == o.office.nudged && o.office.phase == electing && !e.OK:
		o.office.dead[e.Peer] = true
		o.elect()
	}
}

func (o *Overlay) dialledMaster(ok bool) {
	switch {
	case ok && o.office.phase == doubting:
		// Connected again: a ping decides.
		o.office.next = o.now.Add(o.config.PingTimeout)
		o.ping(o.office.master.Peer)
		o.introduce()
	case ok && o.office.phase != following:
		o.ping(o.office.master.Peer)
		o.introduceAgain()
	case !ok && o.office.phase == doubting:
		o.masterDead()
	case !ok && o.office.phase == following:
		// A beat that came through others made up for the doubt. Look again.
		o.suspectMaster()
	}
}

// dialledMember draws the master's conclusions from a dial.
func (o *Overlay) dialledMember(e Dialled) {
	listed := o.roster.Has(e.Peer)
	switch {
	case !listed && e.OK:
		o.foundLost(e.Peer)
	case !listed:
	case e.OK:
		o.probe(e.Peer)
	default:
		o.memberDown(e.Peer, false, "its connection broke and it could not be dialled")
	}
}

// heardCandidate accepts an answer of the best candidate in place of a claim,
// for some time.
func (o *Overlay) heardCandidate(from task.PeerID) {
	if o.office.phase == electing && from == o.office.nudged && o.office.patience > 0 && o.office.asked {
		o.office.asked = false
		o.office.patience--
		o.office.next = o.now.Add(o.config.Nudge)
	}
}
