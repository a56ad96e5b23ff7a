package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// register is what a master keeps to publish its roster.
type register struct {
	changes []change      // of the last beats
	base    RosterVersion // that the first of the term builds on; zero: none
	whole   bool          // this beat carries the whole roster

	newcomers []task.PeerID // wait for a snapshot
	due       time.Time     // when they get it; zero: nobody waits
	last      time.Time     // when the last ones got it
}

// change is one change of the roster by its master.
type change struct {
	*entry
	gone bool
	at   time.Time
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

// changed notes a change that the master made to its roster.
func (m *membership) changed(now time.Time, e *entry, gone bool) {
	m.roster.version.N++
	m.register.changes = append(m.register.changes, change{e, gone, now})
}

// enlist puts a member on the master's roster and tells whether it was not there.
func (m *membership) enlist(now time.Time, e *entry) (added bool) {
	changed, added := m.roster.put(e)
	if changed {
		m.changed(now, e, false)
	}
	if added {
		m.forgetLost(e.member.Peer)
	}
	return added
}

// strike takes a member off the master's roster.
func (m *membership) strike(now time.Time, peer task.PeerID) {
	if e := m.roster.drop(peer); e != nil {
		m.changed(now, e, true)
	}
}

// takeOver begins the roster of a new term: the one that was in force, without
// those that the election found dead, who introduce themselves if they live and
// are returned. Who has that roster needs those changes only.
func (m *membership) takeOver(now time.Time, term task.Term, dead map[task.PeerID]bool) (passed []Member) {
	r := &m.register
	*r = register{newcomers: r.newcomers, due: r.due, last: r.last}
	if m.current() {
		r.base = m.roster.version
	} else {
		r.whole = true
	}
	if m.roster.Len() < 2 {
		m.roster.sorted = nil // none yet: the members introduce themselves
	}
	m.term, m.reigning = term, true
	m.roster.version = RosterVersion{Term: term, N: firstVersion}
	m.roster.edits++
	for _, e := range m.byes {
		m.changed(now, e, true)
	}
	m.byes = nil
	for _, other := range m.roster.Members() {
		switch peer := other.Peer; {
		case peer == m.self.Peer:
		case m.denied[peer]:
			m.strike(now, peer)
		case dead[peer]:
			passed = append(passed, other)
			m.strike(now, peer)
			m.lose(now, other)
		}
	}
	m.enlist(now, &entry{m.key, m.self})
	return passed
}

// recent is the delta of the roster's changes of the last beats. It is the
// whole roster where that is shorter, and in the first beat of a new master that
// has taken over none.
func (m *membership) recent(now time.Time) RosterDelta {
	r, beat := &m.register, m.config.Beat
	if r.whole {
		return m.roster.Snapshot()
	}
	for len(r.changes) > 0 && now.Sub(r.changes[0].at) > recentBeats*beat {
		if len(r.changes) <= few && now.Sub(r.changes[0].at) <= fewBeats*beat {
			break
		}
		r.changes = r.changes[1:]
	}
	if len(r.changes) > m.roster.Len() {
		return m.roster.Snapshot()
	}
	return m.delta(r.changes)
}

// news is the delta of the changes since the last beat: what a message
// between two beats carries, so that newcomers are covered at once. Who lacks
// its base waits for the next beat.
func (m *membership) news(lastBeat time.Time) RosterDelta {
	changes := m.register.changes
	first, _ := slices.BinarySearchFunc(changes, lastBeat, func(c change, beat time.Time) int { return c.at.Compare(beat) })
	return m.delta(changes[first:])
}

func (m *membership) delta(changes []change) RosterDelta {
	version := m.roster.version
	delta := RosterDelta{Term: version.Term, From: version.N - uint64(len(changes)), To: version.N}
	if delta.From == firstVersion {
		delta.Base = m.register.base
	}
	last := make(map[task.PeerID]int, len(changes))
	for i, c := range changes {
		last[c.member.Peer] = i
	}
	for i, c := range changes {
		switch {
		case last[c.member.Peer] != i: // overtaken by a later change of the same member
		case c.gone:
			delta.Remove = append(delta.Remove, c.member.Peer)
		default:
			delta.Add = append(delta.Add, c.member)
			delta.entries = append(delta.entries, c.entry)
		}
	}
	return delta
}

// welcomeSoon lets a member have the whole roster: at once, or together with
// those that come within the same pause.
func (m *membership) welcomeSoon(peer task.PeerID) {
	r := &m.register
	if slices.Contains(r.newcomers, peer) {
		return
	}
	r.newcomers = append(r.newcomers, peer)
	if r.due.IsZero() {
		r.due = r.last.Add(m.config.Members.WelcomePause)
	}
}

// passNewcomers welcomes who waits.
func (m *membership) passNewcomers(s *step) {
	r := &m.register
	if r.due.IsZero() || s.now.Before(r.due) {
		return
	}
	welcome := Welcome{Master: m.self, Roster: m.roster.Snapshot()}
	for _, peer := range r.newcomers {
		s.send(peer, welcome)
	}
	r.newcomers, r.due, r.last = nil, time.Time{}, s.now
}
