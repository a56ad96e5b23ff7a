package dht

// missed lists the members that no reply and no acknowledgement accounts for.
func (d *duty) missed(members []*entry) (missed []*entry) {
	reached := make(map[uint64]bool, len(d.reached))
	for _, short := range d.reached {
		reached[short] = true
	}
	if d.repairing {
		for _, r := range d.regions {
			if r.acked {
				reached[r.space.First.Short()] = true
			}
		}
	}
	for _, e := range members {
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
func (b *broadcast) repair(s *step, m *membership, d *duty) (waits bool) {
	if d.repairing {
		return false
	}
	missed := d.missed(m.known().sorted)
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
	missed := peersOf(d.missed(m.known().sorted))
	for _, peer := range missed {
		m.distrust(s.now, peer)
	}
	if d.message.Kind == CastPayload {
		s.act(Done{
			N: d.user, Data: d.data, Reached: m.known().Len() - len(missed),
			Missed: missed, Depth: d.depth, Peers: d.peers,
		})
	}
	d.data, d.regions = nil, nil
}
