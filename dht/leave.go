package dht

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// leave says goodbye: records kept for others go to the members that are next
// in line, and those who deal with this pilot most hear Bye; the rest of the
// site learns it from the roster.
func (o *Overlay) leave() {
	if o.leaving {
		return
	}
	o.leaving = true
	heirs := o.handOver()
	for _, peer := range o.farewells(heirs) {
		o.send(peer, Bye{})
	}
	o.act(Left{})
}

// farewells lists who hears the goodbye: the master, or of a leaving master
// the next ones in line for the office, the heirs of the records, and some
// more that keep this pilot's own locations or are near by id.
func (o *Overlay) farewells(heirs []task.PeerID) []task.PeerID {
	var peers []task.PeerID
	add := func(peer task.PeerID) {
		if peer != o.self.Peer && !o.unreachable(peer) && !slices.Contains(peers, peer) {
			peers = append(peers, peer)
		}
	}
	if !o.inOffice() {
		add(o.office.master.Peer)
	}
	for _, heir := range heirs {
		add(heir)
	}
	most := len(peers) + o.config.Farewells
	if o.inOffice() {
		for _, e := range o.known().sorted {
			if len(peers) < most {
				add(e.member.Peer)
			}
		}
	}
	for _, peer := range o.announced.keepers() {
		if len(peers) < most {
			add(peer)
		}
	}
	for _, e := range o.known().nearest(o.selfKey, o.config.Farewells, o.unreachable) {
		if len(peers) < most {
			add(e.member.Peer)
		}
	}
	return peers
}

// handOver sends the records of other holders to those members that become
// nearest once this pilot is gone, and tells who they are.
func (o *Overlay) handOver() []task.PeerID {
	skip := func(peer task.PeerID) bool { return peer == o.self.Peer || o.unreachable(peer) }
	batches := make(map[task.PeerID][]Record)
	for _, record := range o.records.all(o.now) {
		if record.Holder == o.self.Peer {
			continue
		}
		heirs := o.known().nearest(KeyOfFile(record.File), o.config.Replicas, skip)
		if len(heirs) == o.config.Replicas {
			heirs = heirs[len(heirs)-1:] // the nearer ones have it already
		}
		for _, heir := range heirs {
			batches[heir.member.Peer] = append(batches[heir.member.Peer], record)
		}
	}
	heirs := sortedPeers(batches)
	for _, peer := range heirs {
		for records := range slices.Chunk(batches[peer], maxBatch) {
			o.send(peer, Put{Records: records})
		}
	}
	return heirs
}
