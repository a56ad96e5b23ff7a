package dht

import "slices"

// accounted names the members that got a broadcast: those that replies name, and
// those that acknowledged it to the root itself.
func (d *duty) accounted() map[uint64]bool {
	reached := make(map[uint64]bool, len(d.reached))
	for _, short := range d.reached {
		reached[short] = true
	}
	for _, r := range d.regions {
		if d.repairing && r.acked {
			reached[r.space.First.Short()] = true
		}
	}
	return reached
}

// missed lists the members that no reply and no acknowledgement accounts for.
func (d *duty) missed(members []*entry) (missed []*entry) {
	reached := d.accounted()
	for _, e := range members {
		if !reached[e.key.Short()] {
			missed = append(missed, e)
		}
	}
	return missed
}

// repair has the master send a broadcast straight to the members that the tree
// missed; it tells whether there is anybody to wait for. A member counts as reached when it
// acknowledges, so that one which is only late is not taken for dead. Whoever
// was under suspicion before this broadcast began is sent it, too, but holds
// nobody up.
func (b *broadcast) repair(s *step, m *membership, d *duty) (waits bool) {
	if d.repairing || !m.reigning {
		return false
	}
	missed := d.missed(m.listed())
	if len(missed) == 0 {
		return false
	}
	d.repairing = true
	d.peers = b.peersOf(d)
	begun := d.deadline.Add(-d.message.Budget)
	d.deadline = s.now.Add(b.config.Broadcast.ReplyHop + b.config.Broadcast.HopAck)
	d.regions = make([]*region, 0, len(missed))
	for _, e := range missed {
		r := &region{space: Range{e.key, e.key}}
		d.regions = append(d.regions, r)
		b.forward(s, m, d, r)
		r.next = d.deadline
		if peer := e.member.Peer; m.isSuspect(s.now, peer) && m.suspects[peer].since.Before(begun) {
			r.given = true
		}
		waits = waits || !r.given
	}
	return waits
}

// done ends a broadcast at its root.
func (b *broadcast) done(s *step, m *membership, d *duty) {
	all := m.known.sorted
	if m.reigning {
		all = m.listed()
	}
	missed := peersOf(d.missed(all))
	for _, peer := range missed {
		m.distrust(s.now, peer)
	}
	if d.message.Kind == CastPayload {
		s.act(Done{
			N: d.user, Data: d.data, Reached: len(d.accounted()),
			Missed: missed, Depth: d.depth, Peers: d.peers,
		})
	}
	d.data, d.regions = nil, nil
}

// awaits tells whether a broadcast of this master's has reached somebody who has
// not introduced itself yet: what such a pilot replies is of no use without its
// name, as in the first seconds of a new master.
func (d *duty) awaits(m *membership) bool {
	if !m.reigning || !d.message.Reply || d.parents != nil {
		return false
	}
	listed := make(map[uint64]bool)
	for _, e := range m.listed() {
		listed[e.key.Short()] = true
	}
	return slices.ContainsFunc(d.reached, func(short uint64) bool { return !listed[short] })
}
