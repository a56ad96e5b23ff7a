package dht

import (
	"fmt"
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

// office is what a pilot knows of the mastership.
type office struct {
	phase       phase
	term        task.Term
	master      Member
	provisional bool      // reigning without the queue's word
	lastBeat    time.Time // of the master, or sent by this master
	next        time.Time // when the phase wants attention
	introduced  time.Time // last Hello
	dead        map[task.PeerID]bool
	nudged      task.PeerID // best candidate that was told
	asked       bool        // and pinged, because it has not claimed yet
	patience    int         // how often its answer is accepted for a claim
	pending     bool        // a Claim is under way
	since       time.Time   // this pilot took office
}

func (o *Overlay) inOffice() bool { return o.office.phase == reigning }

// follow accepts a master and introduces this pilot to it.
func (o *Overlay) follow(term task.Term, master Member) {
	wasMaster := o.inOffice()
	if term.Ballot == 0 {
		o.granted = term
	}
	changed := o.office.master.Peer != master.Peer || o.office.term != term
	o.office = office{phase: following, term: term, master: master, lastBeat: o.now, pending: o.office.pending}
	if wasMaster {
		o.changes = nil
		clear(o.pings)
	}
	if changed {
		o.act(MasterChanged{Term: term, Master: master})
	}
	o.met(master)
	o.introduce()
}

func (o *Overlay) introduce() {
	o.office.introduced = o.now
	o.send(o.office.master.Peer, Hello{Member: o.self})
}

// takeOffice makes this pilot master under a term.
func (o *Overlay) takeOffice(term task.Term, provisional bool) {
	was := o.inOffice()
	dead := o.office.dead
	members := o.roster.Members()
	o.office = office{phase: reigning, term: term, master: o.self, provisional: provisional, since: o.now}
	if !provisional {
		o.granted = term
	}
	if provisional {
		o.office.next = o.now.Add(o.config.ClaimEvery)
	}
	o.changes = nil
	o.roster = Roster{version: RosterVersion{Term: term, N: 1}}
	o.roster.Put(o.self)
	if len(members) < 2 {
		members = nil // no roster yet: members introduce themselves
	}
	for _, m := range members {
		if !dead[m.Peer] && !o.denied[m.Peer] {
			o.roster.Put(m)
		}
	}
	o.act(MasterChanged{Term: term, Master: o.self, Self: true, Provisional: provisional})
	if !was {
		for _, m := range o.roster.Members() {
			if m.Peer != o.self.Peer {
				o.act(MemberUp{Member: m})
			}
		}
	}
	o.beat()
	if !was {
		for _, m := range o.contacts.Members() {
			if _, listed := o.roster.Get(m.Peer); !listed && !dead[m.Peer] && m.Peer != o.self.Peer {
				o.send(m.Peer, Office{Term: term, Master: o.self})
			}
		}
	}
}

// beat makes this master heard by everybody.
func (o *Overlay) beat() {
	o.office.lastBeat = o.now
	o.startCast(CastBeat, 0, nil, false)
}

// heardOffice weighs somebody's word on who is master.
func (o *Overlay) heardOffice(term task.Term, master Member) {
	switch {
	case o.leaving || master.Peer == o.self.Peer || o.denied[master.Peer]:
	case o.office.term.Less(term):
		o.follow(term, master)
	case term == o.office.term && o.office.phase == electing && !o.office.dead[master.Peer]:
		o.follow(term, master)
	}
}

// heardMaster notes a sign of life of a master and tells whether its term is
// in force here.
func (o *Overlay) heardMaster(from task.PeerID, term task.Term, master Member) bool {
	switch order := term.Compare(o.office.term); {
	case order < 0:
		o.send(from, Office{Term: o.office.term, Master: o.office.master})
		return false
	case order > 0:
		o.heardOffice(term, master)
	}
	if o.office.phase != reigning {
		o.office.lastBeat = o.now
		if o.office.phase == doubting || o.office.phase == electing {
			o.office.phase, o.office.dead = following, nil
		}
	}
	return true
}

// suspectMaster starts to doubt: the connection broke, or somebody says so.
func (o *Overlay) suspectMaster() {
	if o.office.phase != following || o.leaving {
		return
	}
	o.office.phase = doubting
	o.office.next = o.now.Add(o.config.PingTimeout)
	o.act(Dial{Member: o.office.master})
	o.send(o.office.master.Peer, Ping{N: o.pingCount})
}

// masterDead begins an election.
func (o *Overlay) masterDead() {
	if o.office.dead == nil {
		o.office.dead = make(map[task.PeerID]bool)
	}
	o.office.dead[o.office.master.Peer] = true
	o.office.phase = electing
	o.office.nudged = ""
	o.elect()
}

// elect finds the live member with the lowest Kademlia id (DESIGN section 4).
func (o *Overlay) elect() {
	best, bestKey := o.self, o.selfKey
	consider := func(m Member) {
		key := KeyOfPeer(m.Peer)
		if key.Less(bestKey) && !o.office.dead[m.Peer] && !o.unreachable(m.Peer) {
			best, bestKey = m, key
		}
	}
	for _, e := range o.roster.sorted {
		consider(e.member)
	}
	for _, e := range o.contacts.sorted {
		consider(e.member)
	}
	if best.Peer == o.self.Peer {
		o.claim()
		return
	}
	o.office.nudged, o.office.asked, o.office.patience = best.Peer, false, 4
	o.office.next = o.now.Add(o.config.Nudge)
	o.send(best.Peer, MasterDead{Term: o.office.term})
	o.act(Dial{Member: best})
}

func (o *Overlay) claim() {
	o.office.phase = claiming
	o.office.next = o.now.Add(o.config.ClaimEvery)
	o.askQueue()
}

func (o *Overlay) askQueue() {
	if o.office.pending {
		return
	}
	o.office.pending = true
	o.act(Claim{Expected: o.granted, Ballot: o.office.term.Ballot})
}

// claimAnswered handles the queue's word on a claim.
func (o *Overlay) claimAnswered(e ClaimAnswer) {
	o.office.pending = false
	if o.leaving {
		return
	}
	mayClaim := o.office.phase == claiming || o.inOffice() && o.office.provisional
	switch {
	case e.Reached && (e.Granted || e.Master.Peer == o.self.Peer && mayClaim):
		if o.office.term.Less(e.Term) {
			o.takeOffice(e.Term, false)
		}
	case !mayClaim:
	case e.Reached && o.office.term.Less(e.Term) && e.Master.Peer != o.self.Peer:
		o.follow(e.Term, e.Master)
	case e.Reached:
		// Refused although nothing changed: the queue heard the master less
		// than a moment ago. Look again and ask again.
		o.office.next = o.now.Add(o.config.ClaimEvery)
	case o.office.phase == claiming:
		// The queue cannot be asked: go on without it under a provisional
		// ballot, which any term of the queue outranks.
		term := task.Term{Epoch: o.office.term.Epoch, Ballot: o.office.term.Ballot + 1, Peer: o.self.Peer}
		o.takeOffice(term, true)
	default:
		o.office.next = o.now.Add(o.config.ClaimEvery)
	}
}

// toldMasterDead is a nudge: look for oneself before claiming.
func (o *Overlay) toldMasterDead(from task.PeerID, m MasterDead) {
	switch {
	case m.Term.Less(o.office.term) || o.inOffice():
		o.send(from, Office{Term: o.office.term, Master: o.office.master})
	case o.office.phase == following:
		o.suspectMaster()
	}
}

func (o *Overlay) officeDeadline() time.Time {
	switch o.office.phase {
	case reigning:
		beat := o.office.lastBeat.Add(o.config.Beat)
		if o.office.provisional && o.office.next.Before(beat) {
			return o.office.next
		}
		return beat
	case following:
		return o.office.lastBeat.Add(time.Duration(o.config.BeatMisses) * o.config.Beat)
	default:
		return o.office.next
	}
}

// passOffice carries out what the mastership wants now.
func (o *Overlay) passOffice() {
	if o.leaving || o.now.Before(o.officeDeadline()) {
		return
	}
	switch o.office.phase {
	case reigning:
		if o.office.provisional && !o.now.Before(o.office.next) {
			o.office.next = o.now.Add(o.config.ClaimEvery)
			o.askQueue()
		}
		if !o.now.Before(o.office.lastBeat.Add(o.config.Beat)) {
			o.beat()
		}
	case following:
		o.suspectMaster()
	case doubting:
		o.masterDead() // neither the redial nor the ping was answered
	case electing:
		if !o.office.asked {
			o.office.asked = true
			o.office.next = o.now.Add(o.config.PingTimeout)
			o.ping(o.office.nudged)
			return
		}
		o.office.dead[o.office.nudged] = true // it had its chance
		o.elect()
	case claiming:
		o.office.next = o.now.Add(o.config.ClaimEvery)
		o.askQueue()
	}
}

// dialled handles the answer to a Dial.
func (o *Overlay) dialled(e Dialled) {
	if e.OK {
		delete(o.suspect, e.Peer)
	}
	switch {
	case e.Peer == o.office.master.Peer && o.office.phase == doubting:
		if e.OK {
			// Connected again: a ping is on its way and decides.
			o.send(e.Peer, Ping{N: o.pingCount})
			o.introduce()
			return
		}
		o.masterDead()
	case e.Peer == o.office.nudged && o.office.phase == electing && !e.OK:
		o.office.dead[e.Peer] = true
		o.elect()
	case o.inOffice() && !e.OK:
		if _, listed := o.roster.Get(e.Peer); listed {
			o.memberDown(e.Peer, false, "its connection broke and it could not be dialled")
		}
	case o.inOffice() && e.OK:
		o.probe(e.Peer)
	}
}

// bye takes a leaving member out.
func (o *Overlay) bye(from task.PeerID) {
	switch {
	case o.inOffice():
		o.memberDown(from, true, "left")
	case from == o.office.master.Peer && !o.leaving:
		o.gone(from)
		o.roster.Drop(from)
		if o.office.phase == following || o.office.phase == doubting {
			o.masterDead()
		}
	default:
		o.gone(from)
		o.roster.Drop(from)
	}
}

// memberDown takes a member off the roster (master only).
func (o *Overlay) memberDown(peer task.PeerID, left bool, reason string) {
	member, listed := o.roster.Get(peer)
	o.gone(peer)
	if !listed || peer == o.self.Peer {
		return
	}
	o.roster.Drop(peer)
	o.changed(change{remove: peer})
	o.act(MemberDown{Member: member, Left: left, Reason: reason})
}

func (o *Overlay) String() string {
	return fmt.Sprintf("%s phase=%d term=%s master=%s members=%d", o.self.Pilot, o.office.phase, o.office.term, o.office.master.Pilot, o.roster.Len())
}
