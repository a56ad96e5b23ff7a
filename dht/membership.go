package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// change is one change of the roster by its master.
type change struct {
	add    *entry
	remove task.PeerID // "" when add is set
	at     time.Time
}

func (c change) peer() task.PeerID {
	if c.add != nil {
		return c.add.member.Peer
	}
	return c.remove
}

// register is what a member keeps to publish the roster as master, or to get
// it from one.
type register struct {
	changes []change      // of the last beats
	base    RosterVersion // that the first of the term builds on; zero: none
	whole   bool          // this beat carries the whole roster

	newcomers []task.PeerID // wait for a snapshot
	due       time.Time     // when they get it; zero: nobody waits
	last      time.Time     // when the last ones got it

	wanted time.Time // a snapshot was asked for
	wishes int       // how often
	byes   []*entry  // members that said goodbye, and that the master's roster lists still
}

// changed notes a change that the master made to its roster.
func (o *Overlay) changed(c change) {
	o.roster.version.N++
	c.at = o.now
	o.register.changes = append(o.register.changes, c)
}

// firstVersion is the number of a roster that a new master has changed nothing about.
const firstVersion = 1

// A change travels with every beat for recentBeats, so that one may be missed;
// whoever missed both asks for a snapshot. While a large site comes up, everybody
// reads every change that often. A few changes, as of a new master, travel for
// longer: a snapshot is a thousand times as long, and beats are late where a site
// is busy.
const (
	recentBeats = 2
	fewBeats    = 10
	few         = 16
)

// enlist puts a member on the master's roster and tells whether it was not there.
func (o *Overlay) enlist(e *entry) (added bool) {
	changed, added := o.roster.put(e)
	if changed {
		o.changed(change{add: e})
	}
	return added
}

// strike takes a member off the master's roster.
func (o *Overlay) strike(peer task.PeerID) {
	if o.roster.Drop(peer) {
		o.changed(change{remove: peer})
	}
}

// recent is the delta of the roster's changes of the last beats. It is the
// whole roster where that is shorter, and in the first beat of a new master that
// has taken over none.
func (o *Overlay) recent() RosterDelta {
	if o.register.whole {
		return o.roster.Snapshot()
	}
	changes := o.register.changes
	for len(changes) > 0 && o.now.Sub(changes[0].at) > recentBeats*o.config.Beat {
		if len(changes) <= few && o.now.Sub(changes[0].at) <= fewBeats*o.config.Beat {
			break
		}
		changes = changes[1:]
	}
	o.register.changes = changes
	if len(changes) > o.roster.Len() {
		return o.roster.Snapshot()
	}
	return o.delta(changes)
}

// news is the delta of the changes since the last beat: what a message
// between two beats carries, so that newcomers are covered at once. Who lacks
// its base waits for the next beat.
func (o *Overlay) news() RosterDelta {
	changes := o.register.changes
	first, _ := slices.BinarySearchFunc(changes, o.office.lastBeat, func(c change, beat time.Time) int { return c.at.Compare(beat) })
	return o.delta(changes[first:])
}

func (o *Overlay) delta(changes []change) RosterDelta {
	version := o.roster.version
	delta := RosterDelta{Term: version.Term, From: version.N - uint64(len(changes)), To: version.N}
	if delta.From == firstVersion {
		delta.Base = o.register.base
	}
	last := make(map[task.PeerID]int, len(changes))
	for i, c := range changes {
		last[c.peer()] = i
	}
	for i, c := range changes {
		switch {
		case last[c.peer()] != i: // overtaken by a later change of the same member
		case c.add != nil:
			delta.Add = append(delta.Add, c.add.member)
			delta.entries = append(delta.entries, c.add)
		default:
			delta.Remove = append(delta.Remove, c.remove)
		}
	}
	return delta
}

// hello puts a member on the roster, or says who is master.
func (o *Overlay) hello(from task.PeerID, m Hello) {
	if m.Member.Peer != from || o.leaving {
		return
	}
	o.met(m.Member)
	if !o.inOffice() {
		if o.office.phase == following {
			o.send(from, Office{Term: o.office.term, Master: o.office.master})
		}
		return
	}
	e := &entry{KeyOfPeer(from), m.Member}
	if added := o.enlist(e); !added {
		o.send(from, Welcome{Master: o.self, Roster: o.recent()})
		return
	}
	o.forgetLost(from)
	o.announced.membersAdded(o, []*entry{e})
	o.sendSnapshot(from)
	o.act(MemberUp{Member: m.Member})
}

// sendSnapshot lets a member have the whole roster: at once, or together with
// those that come within the same pause.
func (o *Overlay) sendSnapshot(to task.PeerID) {
	r := &o.register
	if slices.Contains(r.newcomers, to) {
		return
	}
	r.newcomers = append(r.newcomers, to)
	if r.due.IsZero() {
		r.due = r.last.Add(o.config.WelcomePause)
	}
}

// passNewcomers welcomes who waits.
func (o *Overlay) passNewcomers() {
	r := &o.register
	if r.due.IsZero() || o.now.Before(r.due) {
		return
	}
	welcome := Welcome{Master: o.self, Roster: o.roster.Snapshot()}
	for _, peer := range r.newcomers {
		if o.inOffice() {
			o.send(peer, welcome)
		}
	}
	r.newcomers, r.due, r.last = nil, time.Time{}, o.now
}

// wantRoster asks for a snapshot: whoever sent a delta that does not fit, or
// the master; in turn, and not again before an answer can be there.
func (o *Overlay) wantRoster(from task.PeerID) {
	r := &o.register
	if !r.wanted.IsZero() && o.now.Sub(r.wanted) < o.config.Beat/2 {
		return
	}
	r.wanted = o.now
	r.wishes++
	if r.wishes%2 == 0 {
		from = o.office.master.Peer
	}
	o.send(from, RosterWanted{})
}

// rosterWanted answers with a snapshot, if this member has what is in force.
func (o *Overlay) rosterWanted(from task.PeerID) {
	switch {
	case o.leaving:
	case o.inOffice():
		o.sendSnapshot(from)
	case o.roster.version.Term == o.office.term:
		o.send(from, Welcome{Master: o.office.master, Roster: o.published()})
	}
}

// welcome takes the master's roster, or a snapshot that was asked for.
func (o *Overlay) welcome(from task.PeerID, m Welcome) {
	if m.Roster.Term.Less(o.office.term) || o.inOffice() && m.Roster.Term == o.office.term {
		return
	}
	if from == m.Master.Peer {
		if !o.heardMaster(from, m.Roster.Term, m.Master, true) {
			return
		}
	} else {
		o.heardOffice(from, m.Roster.Term, m.Master)
	}
	if m.Roster.Term == o.office.term {
		o.applyRoster(from, m.Roster, true)
	}
}

// applyRoster brings the roster up to date and draws the consequences. When
// the delta does not fit and complete is set, a snapshot is asked for.
func (o *Overlay) applyRoster(from task.PeerID, delta RosterDelta, complete bool) {
	if o.inOffice() || delta.Term.Less(o.roster.version.Term) {
		return
	}
	before := o.roster.version
	diff, applied := o.roster.apply(delta)
	if !applied {
		if complete {
			o.wantRoster(from)
		}
		return
	}
	if o.roster.version == before {
		return
	}
	o.register.wanted = time.Time{}
	o.keepByes(delta, &diff)
	for _, peer := range diff.removed {
		if peer != o.self.Peer {
			o.gone(peer)
		}
	}
	for _, e := range diff.added {
		o.records.show(e.member.Peer)
	}
	if delta.From == 0 || delta.Term != before.Term {
		o.hideStrangers()
	}
	if !o.roster.Has(o.self.Peer) && !o.leaving {
		o.introduceAgain()
	}
	o.announced.membersAdded(o, diff.added)
}

// keepByes leaves out those whose goodbye was heard, until the master leaves them
// out or takes them in again. A snapshot that lists them is older than that.
func (o *Overlay) keepByes(delta RosterDelta, diff *rosterDiff) {
	if len(o.register.byes) == 0 {
		return // as nearly always: a diff may have every member
	}
	o.register.byes = slices.DeleteFunc(o.register.byes, func(e *entry) bool {
		listed, whole := o.roster.lists(e), delta.From == 0
		if listed && whole {
			o.roster.Drop(e.member.Peer)
			return false
		}
		return listed || whole || slices.Contains(delta.Remove, e.member.Peer)
	})
	diff.added = slices.DeleteFunc(diff.added, func(e *entry) bool { return !o.roster.lists(e) })
}

// published is the roster as its master published it: with those whose goodbye this
// member has heard.
func (o *Overlay) published() RosterDelta {
	roster := Roster{version: o.roster.version, sorted: slices.Clone(o.roster.sorted)}
	for _, e := range o.register.byes {
		roster.put(e)
	}
	return roster.Snapshot()
}

// hideStrangers points nobody to the files of those that were met and are not
// on the roster: they are gone, or about to be listed. What they were told of
// this member's own files they are told again, or whoever is near instead.
func (o *Overlay) hideStrangers() {
	for _, e := range o.contacts.sorted {
		if peer := e.member.Peer; peer != o.self.Peer && !o.roster.lists(e) {
			o.records.hide(o.now, peer)
			o.announced.memberGone(o, peer)
		}
	}
}

// introduceAgain repeats the wish to be on the roster, at most once a beat.
func (o *Overlay) introduceAgain() {
	if o.now.Sub(o.office.introduced) >= o.config.Beat {
		o.introduce()
	}
}

// gone removes a peer from everything that was known of it.
func (o *Overlay) gone(peer task.PeerID) {
	o.contacts.Drop(peer)
	o.records.hide(o.now, peer)
	o.noAnswerFrom(peer)
	o.announced.memberGone(o, peer)
	delete(o.pings, peer)
	delete(o.suspect, peer)
	o.act(Forget{Peer: peer})
}

// memberDown takes a member off the roster (master only).
func (o *Overlay) memberDown(peer task.PeerID, left bool, reason string) {
	if peer == o.self.Peer {
		return
	}
	member, listed := o.roster.Get(peer)
	o.strike(peer)
	o.gone(peer)
	if !listed {
		return
	}
	if !left && !o.denied[peer] {
		o.lose(member)
	}
	o.act(MemberDown{Member: member, Left: left, Reason: reason})
}

// bye takes a leaving member out.
func (o *Overlay) bye(from task.PeerID) {
	if o.inOffice() {
		o.memberDown(from, true, "left")
		return
	}
	o.gone(from)
	if e := o.roster.entry(from); e != nil {
		o.roster.Drop(from)
		o.register.byes = append(o.register.byes, e)
	}
	if from == o.office.master.Peer && !o.leaving {
		o.office.resigned = true
		if o.office.phase == following || o.office.phase == doubting {
			o.masterDead()
		}
	}
}
