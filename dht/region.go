package dht

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// divide splits a broadcast's space into at most Fanout regions, each with at
// least one known member that has not got it yet; together they are the whole
// space, so members not known here are covered by whoever knows them.
func (o *Overlay) divide(m Cast) []Range {
	var keys []Key
	for _, e := range o.known().within(m.Space) {
		if o.mayCover(e, m) {
			keys = append(keys, e.key)
		}
	}
	space := m.Space
	groups := min(o.config.Fanout, len(keys))
	regions := make([]Range, 0, groups)
	first := space.First
	for g := range groups {
		last := space.Last
		if g+1 < groups {
			last = keys[(g+1)*len(keys)/groups].previous()
		}
		regions = append(regions, Range{first, last})
		first = last.next()
	}
	return regions
}

// forward gives a region to its next contact.
func (o *Overlay) forward(duty *cast, r *region) {
	contact, found := o.contact(duty, r)
	if !found {
		r.given = true
		return
	}
	r.current, r.acked = contact, false
	r.tried = append(r.tried, contact)
	r.next = o.now.Add(o.config.HopAck)
	m := duty.message
	m.Space, m.Path = r.space, append(slices.Clone(m.Path), o.selfKey.Short())
	m.Budget = max(duty.deadline.Sub(o.now)-o.config.ReplyHop, o.config.ReplyHop/2)
	m.Suspect = o.toldSuspects(duty.message.Suspect)
	o.send(contact, m)
}

// toldSuspects are those that a broadcast brought and those that this pilot
// has seen itself.
func (o *Overlay) toldSuspects(brought []task.PeerID) []task.PeerID {
	told := slices.Clone(brought)
	for _, peer := range o.seenSuspects() {
		if len(told) < maxSuspects && !slices.Contains(told, peer) {
			told = append(told, peer)
		}
	}
	return told
}

// mayCover tells whether a member may be given a region: not this pilot and
// none of those above it in the tree.
func (o *Overlay) mayCover(e *entry, m Cast) bool {
	return e.member.Peer != o.self.Peer && !o.denied[e.member.Peer] && !slices.Contains(m.Path, e.key.Short())
}

// contact picks a member of a region that has not been tried: spread by the
// broadcast's number, suspects last.
func (o *Overlay) contact(duty *cast, r *region) (task.PeerID, bool) {
	members := o.known().within(r.space)
	var fallback task.PeerID
	for i := range members {
		candidate := members[(uint64(i)+duty.message.ID.N)%uint64(len(members))]
		peer := candidate.member.Peer
		switch {
		case !o.mayCover(candidate, duty.message) || slices.Contains(r.tried, peer):
		case o.isSuspect(peer):
			if fallback == "" {
				fallback = peer
			}
		default:
			return peer, true
		}
	}
	return fallback, fallback != ""
}
