package dht

import (
	"github.com/pilotage-grid/pilotage/task"
)

// missed lists the members that no reply and no acknowledgement accounts for.
func (o *Overlay) missed(duty *cast) []*entry {
	reached := make(map[uint64]bool, len(duty.reached))
	for _, short := range duty.reached {
		reached[short] = true
	}
	if duty.repairing {
		for _, r := range duty.regions {
			if r.acked {
				reached[r.space.First.Short()] = true
			}
		}
	}
	var missed []*entry
	for _, e := range o.known().sorted {
		if !reached[e.key.Short()] {
			missed = append(missed, e)
		}
	}
	return missed
}

// repair sends a broadcast straight to those that the tree missed; it tells
// whether there is anybody to wait for. A member counts as reached when it
// acknowledges, so that one which is only late is not taken for dead. Whoever
// was under suspicion before this broadcast began is sent it, too, but holds
// nobody up.
func (o *Overlay) repair(duty *cast) bool {
	if duty.repairing {
		return false
	}
	missed := o.missed(duty)
	if len(missed) == 0 {
		return false
	}
	duty.repairing = true
	duty.peers = o.casts.peersOf(duty)
	begun := duty.deadline.Add(-duty.message.Budget)
	duty.deadline = o.now.Add(o.config.ReplyHop + o.config.HopAck)
	duty.regions = make([]*region, 0, len(missed))
	waits := false
	for _, e := range missed {
		r := &region{space: Range{e.key, e.key}}
		duty.regions = append(duty.regions, r)
		o.forward(duty, r)
		r.next = duty.deadline
		if peer := e.member.Peer; o.isSuspect(peer) && o.suspect[peer].since.Before(begun) {
			r.given = true
		}
		waits = waits || !r.given
	}
	return waits
}

// done ends a broadcast at its root.
func (o *Overlay) done(duty *cast) {
	entries := o.missed(duty)
	missed := make([]task.PeerID, len(entries))
	for i, e := range entries {
		missed[i] = e.member.Peer
		o.distrust(e.member.Peer)
	}
	if duty.message.Kind == CastPayload {
		o.act(Done{
			N: duty.user, Data: duty.data, Reached: o.known().Len() - len(missed),
			Missed: missed, Depth: duty.depth, Peers: duty.peers,
		})
	}
	duty.data, duty.regions = nil, nil
}
