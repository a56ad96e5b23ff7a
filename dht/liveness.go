package dht

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// probe watches a member that has fallen silent.
type probe struct {
	failed   int
	deadline time.Time
}

// probe sends a ping and waits for its answer (master only).
func (o *Overlay) probe(peer task.PeerID) {
	if _, running := o.pings[peer]; running {
		return
	}
	o.pings[peer] = &probe{deadline: o.now.Add(o.config.MemberPing)}
	o.ping(peer)
}

func (o *Overlay) ping(peer task.PeerID) {
	o.pingCount++
	o.send(peer, Ping{N: o.pingCount})
}

// lives notes a sign of life: whatever a member says will do.
func (o *Overlay) lives(peer task.PeerID) {
	o.trust(peer)
	delete(o.pings, peer)
	o.records.show(peer)
	o.heardCandidate(peer)
}

// trust ends a suspicion.
func (o *Overlay) trust(peer task.PeerID) {
	if _, suspected := o.suspect[peer]; !suspected {
		return
	}
	delete(o.suspect, peer)
	if e := o.known().entry(peer); e != nil {
		o.announced.membersAdded(o, []*entry{e})
	}
}

func (o *Overlay) pong(from task.PeerID) {
	if from == o.office.master.Peer {
		o.masterAlive()
	}
}

// passProbes repeats pings; the master drops whoever never answers.
func (o *Overlay) passProbes() {
	overdue := func(p *probe) bool { return !o.now.Before(p.deadline) }
	for _, peer := range sortedPeersWhere(o.pings, overdue) {
		p := o.pings[peer]
		p.failed++
		if p.failed >= o.config.Pings || !o.inOffice() {
			delete(o.pings, peer)
			if o.inOffice() {
				o.memberDown(peer, false, "it answers no ping")
			}
			continue
		}
		p.deadline = o.now.Add(o.config.MemberPing)
		o.ping(peer)
	}
}

// suspicion passes a member over as a hop and as a keeper of locations. It
// costs nobody anything but a detour: any sign of life ends it, and only the
// master's own pings take a member for dead.
type suspicion struct {
	since time.Time
	until time.Time
	seen  bool // by this pilot itself; told on only then, so that rumours end
}

// distrust suspects a member that left this pilot without an answer; the
// master looks whether it lives.
func (o *Overlay) distrust(peer task.PeerID) {
	if peer == o.self.Peer || peer == "" {
		return
	}
	since := o.now
	if o.isSuspect(peer) {
		since = o.suspect[peer].since
	}
	o.suspect[peer] = suspicion{since: since, until: o.now.Add(o.config.Suspicion), seen: true}
	if o.inOffice() && o.roster.Has(peer) {
		o.probe(peer)
	}
}

// heardSuspicion takes others' word for half as long as one's own; the master
// looks for itself.
func (o *Overlay) heardSuspicion(peers []task.PeerID) {
	for _, peer := range peers {
		switch {
		case peer == o.self.Peer || o.isSuspect(peer) || len(o.suspect) >= 2*max(o.roster.Len(), maxSuspects):
		case o.inOffice():
			o.distrust(peer)
		default:
			o.suspect[peer] = suspicion{since: o.now, until: o.now.Add(o.config.Suspicion / 2)}
		}
	}
}

func (o *Overlay) isSuspect(peer task.PeerID) bool {
	s, found := o.suspect[peer]
	return found && o.now.Before(s.until)
}

func (o *Overlay) unreachable(peer task.PeerID) bool {
	return peer != o.self.Peer && (o.denied[peer] || o.isSuspect(peer))
}

// maxSuspects bounds the suspicion that travels with a broadcast.
const maxSuspects = 64

// seenSuspects lists whom this pilot itself found silent, and forgets
// suspicions that are over.
func (o *Overlay) seenSuspects() []task.PeerID {
	if len(o.suspect) == 0 {
		return nil
	}
	var peers []task.PeerID
	for _, peer := range sortedPeers(o.suspect) {
		switch s := o.suspect[peer]; {
		case !o.now.Before(s.until):
			delete(o.suspect, peer)
		case s.seen && len(peers) < maxSuspects:
			peers = append(peers, peer)
		}
	}
	return peers
}

// disconnected handles a broken connection: redial once, then draw the
// consequences (FACTS: a dead peer is seen within milliseconds on TCP).
func (o *Overlay) disconnected(peer task.PeerID) {
	o.castDisconnected(peer)
	o.noAnswerFrom(peer)
	switch {
	case o.leaving:
	case peer == o.office.master.Peer && !o.inOffice():
		o.office.introduced = time.Time{} // the last Hello is perhaps lost: at its next sign of life another one goes
		o.suspectMaster()
	case o.inOffice():
		if m, listed := o.roster.Get(peer); listed {
			o.act(Dial{Member: m})
		}
	}
}

// noAnswerFrom goes on without the answers that a peer owes.
func (o *Overlay) noAnswerFrom(peer task.PeerID) {
	o.announced.noAnswer(o, peer)
	o.findWithout(peer)
}
