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

func (p phase) String() string {
	return [...]string{"following", "doubting", "electing", "claiming", "reigning"}[p]
}

// office is what a pilot knows of the mastership.
type office struct {
	phase       phase
	term        task.Term
	master      Member
	provisional bool      // reigning without the queue's word
	lastBeat    time.Time // of the master, or sent by this master
	beats       int       // sent by this master
	next        time.Time // when the phase wants attention
	introduced  time.Time // last Hello
	looked      time.Time // last look at a master that is held for dead
	resigned    bool      // the master said goodbye
	pending     bool      // a Claim is under way
	fenced      bool      // the queue has another master in office

	dead     map[task.PeerID]bool // found dead during the election
	doubters []task.PeerID        // wait for this pilot's own look at the master
	nudged   task.PeerID          // best candidate that was told
	asked    bool                 // and pinged, because it has not claimed yet
	patience int                  // how often its answer is accepted for a claim
	refusals int                  // of this pilot's claims
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
		o.register = register{}
		o.lost = nil
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
	was, old := o.inOffice(), o.office
	o.office = office{phase: reigning, term: term, master: o.self, provisional: provisional, pending: old.pending}
	if provisional {
		o.office.next = o.now.Add(o.config.ClaimEvery)
	} else {
		o.granted = term
	}
	passed := o.takeRegister(term, &old)
	o.act(MasterChanged{Term: term, Master: o.self, Self: true, Provisional: provisional, Passed: passed})
	if !was {
		for _, m := range o.roster.Members() {
			if m.Peer != o.self.Peer {
				o.act(MemberUp{Member: m})
			}
		}
	}
	o.beat()
	for _, m := range o.contacts.Members() {
		if !was && m.Peer != o.self.Peer && !old.dead[m.Peer] && !o.roster.Has(m.Peer) {
			o.send(m.Peer, Office{Term: term, Master: o.self})
		}
	}
}

// takeRegister begins the roster of a new term: the one that was in force, without
// those that the election passed over, who introduce themselves if they live and
// are returned. Who has that roster needs those changes only.
func (o *Overlay) takeRegister(term task.Term, old *office) (passed []Member) {
	byes := o.register.byes
	o.register = register{newcomers: o.register.newcomers, due: o.register.due, last: o.register.last}
	if o.roster.version.Term == old.term && o.roster.Len() > 1 {
		o.register.base = o.roster.version
	} else {
		o.register.whole = true
	}
	if o.roster.Len() < 2 {
		o.roster.sorted = nil // none yet: the members introduce themselves
	}
	o.roster.version = RosterVersion{Term: term, N: firstVersion}
	o.roster.edits++
	for _, e := range byes {
		o.changed(change{remove: e.member.Peer})
	}
	for _, m := range o.roster.Members() {
		switch peer := m.Peer; {
		case peer == o.self.Peer:
		case o.denied[peer]:
			o.strike(peer)
		case old.dead[peer]:
			passed = append(passed, m)
			o.strike(peer)
			o.lose(m)
			o.gone(peer)
		}
	}
	o.enlist(&entry{o.selfKey, o.self})
	for _, peer := range sortedPeers(old.dead) {
		if o.contacts.Has(peer) {
			o.gone(peer) // known otherwise
		}
	}
	o.hideStrangers()
	return passed
}

// beat makes this master heard by everybody; every so often it wants replies
// and so learns who is there.
func (o *Overlay) beat() {
	o.office.lastBeat = o.now
	rollCall := o.office.beats%o.config.RollCall == 0
	o.office.beats++
	o.startCast(CastBeat, 0, nil, rollCall)
	o.register.whole = false
	if rollCall {
		o.seekLost()
	}
}

// heardOffice weighs somebody's word on who is master.
func (o *Overlay) heardOffice(from task.PeerID, term task.Term, master Member) {
	order := term.Compare(o.office.term)
	switch {
	case o.leaving || o.denied[master.Peer] || master.Peer == "":
	case order < 0:
		o.sendOffice(from)
	case master.Peer == o.self.Peer:
	case order > 0:
		o.follow(term, master)
	case o.inOffice():
	case from == master.Peer:
		o.masterAlive()
		o.introduceAgain()
	default:
		o.lookAgain() // somebody else still hears it
	}
}

// sendOffice tells a member who is in office here.
func (o *Overlay) sendOffice(to task.PeerID) {
	o.send(to, Office{Term: o.office.term, Master: o.office.master})
}

// heardMaster notes a message under a master's term and tells whether that
// term is in force here; own is set where the message came from the master
// itself, if through others.
func (o *Overlay) heardMaster(from task.PeerID, term task.Term, master Member, own bool) bool {
	switch order := term.Compare(o.office.term); {
	case order < 0:
		o.sendOffice(from)
		return false
	case order > 0:
		o.heardOffice(from, term, master)
	}
	if own && o.office.term == term {
		o.masterAlive()
	}
	return o.office.term == term
}

// masterAlive notes a sign of life of the master in office and ends an
// election that was a mistake.
func (o *Overlay) masterAlive() {
	if o.inOffice() || o.office.resigned {
		return
	}
	was := o.office.phase
	o.office.lastBeat, o.office.phase = o.now, following
	if was == following {
		return
	}
	for _, peer := range o.office.doubters {
		o.sendOffice(peer)
	}
	o.office.dead, o.office.doubters, o.office.nudged, o.office.refusals = nil, nil, "", 0
	o.contacts.Put(o.office.master)
	o.introduceAgain()
}

// unlisted answers a sign of life from somebody who is not on this master's
// roster: it was dropped by mistake and may introduce itself again.
func (o *Overlay) unlisted(from task.PeerID, message Message) {
	switch message.(type) {
	case Hello, Bye, Office:
		return
	}
	if o.inOffice() && !o.leaving && !o.roster.Has(from) {
		o.sendOffice(from)
	}
}

func (o *Overlay) officeDeadline() time.Time {
	switch o.office.phase {
	case reigning:
		beat := o.office.lastBeat.Add(o.config.Beat)
		if (o.office.provisional || o.office.fenced) && o.office.next.Before(beat) {
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
		if (o.office.provisional || o.office.fenced) && !o.now.Before(o.office.next) {
			o.claimAgainLater()
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
		o.urge()
	case claiming:
		o.claimAgainLater()
		o.askQueue()
	}
}

func (o *Overlay) String() string {
	return fmt.Sprintf("%s %s term=%s master=%s members=%d", o.self.Pilot, o.office.phase, o.office.term, o.office.master.Pilot, o.roster.Len())
}
