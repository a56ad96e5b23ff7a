package dht

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// change is one change of the roster by its master.
type change struct {
	add    Member
	remove task.PeerID // "" when add is set
	at     time.Time
}

// changed notes a change that the master made to its roster.
func (o *Overlay) changed(c change) {
	o.roster.version.N++
	c.at = o.now
	o.changes = append(o.changes, c)
	if extra := len(o.changes) - o.config.RosterWindow; extra > 0 {
		o.changes = append([]change(nil), o.changes[extra:]...)
	}
}

// recentBeats is for how many beats a change travels with every broadcast;
// whoever missed them all asks for a snapshot.
const recentBeats = 5

// recent is the delta of the roster's last changes; it travels with every
// broadcast. A new master sends its whole roster for a few beats.
func (o *Overlay) recent() RosterDelta {
	keep := recentBeats * o.config.Beat
	if o.now.Sub(o.office.since) < keep {
		return o.roster.Snapshot()
	}
	for len(o.changes) > 0 && o.now.Sub(o.changes[0].at) > keep {
		o.changes = o.changes[1:]
	}
	version := o.roster.version
	delta := RosterDelta{Term: version.Term, From: version.N - uint64(len(o.changes)), To: version.N}
	last := make(map[task.PeerID]int, len(o.changes))
	for i, c := range o.changes {
		last[c.peer()] = i
	}
	for i, c := range o.changes {
		if last[c.peer()] != i {
			continue // overtaken by a later change of the same member
		}
		if c.remove != "" {
			delta.Remove = append(delta.Remove, c.remove)
		} else {
			delta.Add = append(delta.Add, c.add)
		}
	}
	return delta
}

func (c change) peer() task.PeerID {
	if c.remove != "" {
		return c.remove
	}
	return c.add.Peer
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
	_, known := o.roster.Get(from)
	if o.roster.Put(m.Member) {
		o.changed(change{add: m.Member})
	}
	o.send(from, Welcome{Master: o.self, Roster: o.roster.Snapshot()})
	if !known {
		o.act(MemberUp{Member: m.Member})
	}
}

// welcome takes the master's roster, or a snapshot that was asked for.
func (o *Overlay) welcome(from task.PeerID, m Welcome) {
	if m.Roster.Term.Less(o.office.term) || o.inOffice() && m.Roster.Term == o.office.term {
		return
	}
	if from == m.Master.Peer && !o.heardMaster(from, m.Roster.Term, m.Master) {
		return
	}
	o.applyRoster(from, m.Roster)
}

// applyRoster brings the roster up to date and draws the consequences.
func (o *Overlay) applyRoster(from task.PeerID, delta RosterDelta) {
	if o.inOffice() || delta.Term.Less(o.roster.version.Term) {
		return
	}
	before := o.roster.version
	if !o.roster.Apply(delta) {
		o.send(from, RosterWanted{})
		return
	}
	if o.roster.version == before {
		return
	}
	for _, peer := range delta.Remove {
		if peer != o.self.Peer {
			o.gone(peer)
		}
	}
	if _, listed := o.roster.Get(o.self.Peer); !listed && !o.leaving && o.now.Sub(o.office.introduced) >= o.config.Beat {
		o.introduce()
	}
	o.announced.membersChanged(o.now.Add(o.config.AnnounceDelay))
}

// probe watches a member that has fallen silent.
type probe struct {
	failed   int
	deadline time.Time
}

// probe sends a ping and waits for its answer.
func (o *Overlay) probe(peer task.PeerID) {
	if _, running := o.pings[peer]; running {
		return
	}
	o.pings[peer] = &probe{deadline: o.now.Add(o.config.PingTimeout)}
	o.ping(peer)
}

func (o *Overlay) ping(peer task.PeerID) {
	o.pingCount++
	o.send(peer, Ping{N: o.pingCount})
}

func (o *Overlay) pong(from task.PeerID) {
	delete(o.pings, from)
	switch {
	case from == o.office.master.Peer && o.office.phase == doubting:
		o.office.phase = following
		o.office.lastBeat = o.now
	case from == o.office.nudged && o.office.phase == electing && o.office.patience > 0:
		o.office.asked = false
		o.office.patience--
		o.office.next = o.now.Add(o.config.Nudge)
	}
}

// passProbes repeats pings; the master drops whoever never answers.
func (o *Overlay) passProbes() {
	for _, peer := range sortedPeers(o.pings) {
		p := o.pings[peer]
		if o.now.Before(p.deadline) {
			continue
		}
		p.failed++
		if p.failed >= o.config.Pings {
			delete(o.pings, peer)
			if o.inOffice() {
				o.memberDown(peer, false, "it answers no ping")
			}
			continue
		}
		p.deadline = o.now.Add(o.config.PingTimeout)
		o.ping(peer)
	}
}

// distrust passes a member over as a hop for a while; the master looks
// whether it lives.
func (o *Overlay) distrust(peer task.PeerID) {
	if peer == o.self.Peer || peer == "" {
		return
	}
	o.suspect[peer] = o.now.Add(o.config.Suspicion)
	if o.inOffice() {
		if _, listed := o.roster.Get(peer); listed {
			o.probe(peer)
		}
	}
}

// disconnected handles a broken connection: redial once, then draw the
// consequences (FACTS: a dead peer is seen within milliseconds on TCP).
func (o *Overlay) disconnected(peer task.PeerID) {
	o.castDisconnected(peer)
	switch {
	case o.leaving:
	case peer == o.office.master.Peer && !o.inOffice():
		o.suspectMaster()
	case o.inOffice():
		if m, listed := o.roster.Get(peer); listed {
			o.act(Dial{Member: m})
		}
	}
}
