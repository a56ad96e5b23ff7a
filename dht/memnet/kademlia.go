package memnet

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// kad-dht has goroutines and clocks of its own, so that it cannot run on virtual
// time. Here it is played: tables of buckets of bucketSize members, which enter when
// a connection is made and leave when they are asked in vain or forgotten, and
// lookups that ask one member after the other for those nearest to a key. A test
// (TestModelOfKademlia) holds both against the library.
const (
	bucketSize  = 8 // as in package node, like the three below
	concurrency = 3 // so many are asked at a time
	resiliency  = 3 // the nearest that have to answer before a lookup ends
	enough      = 3 // so many of a part of the key space are looked for
	// lookTime bounds a lookup, as in package node: who hangs does not answer.
	lookTime = 2 * time.Second
	// fewMembers is up to when kad-dht takes in again whom it is connected to.
	fewMembers = 10
	// refreshEvery is how often each bucket is looked up, as in package node.
	refreshEvery = 10 * time.Minute
)

// table is what a member's kad-dht knows: by how many first bits ids share.
type table map[int][]*Node

func (t table) empty() bool {
	for _, bucket := range t {
		if len(bucket) > 0 {
			return false
		}
	}
	return true
}

// meet has two members that are connected know each other.
func (n *Net) meet(a, b *Node) {
	n.admit(a, b)
	n.admit(b, a)
}

func (n *Net) admit(a, b *Node) {
	bits := a.key.Common(b.key)
	if n.NoKademlia || a == b || len(a.table[bits]) >= bucketSize || slices.Contains(a.table[bits], b) {
		return
	}
	a.table[bits] = append(a.table[bits], b)
	n.schedule(0, a, dht.Routed{Member: b.Member})
}

// forget takes a member out of another one's table.
func (n *Net) forget(a *Node, peer task.PeerID) {
	b := n.nodes[peer]
	if b == nil {
		return
	}
	bits := a.key.Common(b.key)
	if !slices.Contains(a.table[bits], b) {
		return
	}
	a.table[bits] = slices.DeleteFunc(a.table[bits], func(other *Node) bool { return other == b })
	n.schedule(0, a, dht.Unrouted{Peer: peer})
	if size := len(a.nearest(a.key, fewMembers+1, nil)); size <= fewMembers {
		for _, linked := range n.order {
			if a.links[linked] != nil && linked != peer && n.nodes[linked].runs() {
				n.admit(a, n.nodes[linked])
			}
		}
	}
}

// nearest lists those in a table that are nearest to a key.
func (m *Node) nearest(key dht.Key, most int, without []task.PeerID) []*Node {
	var all []*Node
	for _, bucket := range m.table {
		for _, other := range bucket {
			if !slices.Contains(without, other.Member.Peer) {
				all = append(all, other)
			}
		}
	}
	byDistance(key, all)
	return all[:min(most, len(all))]
}

func byDistance(key dht.Key, nodes []*Node) {
	slices.SortFunc(nodes, func(a, b *Node) int {
		switch {
		case key.Closer(a.key, b.key):
			return -1
		case a == b:
			return 0
		}
		return 1
	})
}

// lookup answers a member's Lookup after the time that the questions take.
func (n *Net) lookup(a *Node, wish dht.Lookup) {
	found, took := n.closest(a, sha256.Sum256([]byte(wish.Target)), wish.Without)
	members := make([]dht.Member, len(found))
	for i, other := range found {
		members[i] = other.Member
	}
	n.schedule(took, a, dht.LookedUp{Target: wish.Target, Members: members})
	if wish.Target != dht.Bottom {
		n.fill(a, found)
	}
}

// fill looks up each part of the key space of which too few are known, but for those as
// near as the nearest members.
func (n *Net) fill(a *Node, nearest []*Node) {
	far := 0
	for i, other := range nearest {
		if bits := a.key.Common(other.key); i == 0 || bits < far {
			far = bits
		}
	}
	for bits := range far {
		if len(a.table[bits]) < enough {
			n.closest(a, a.part(bits), nil)
		}
	}
}

// part is a key that shares just so many bits with a member's own one.
func (m *Node) part(bits int) dht.Key {
	key := m.key
	key[bits/8] ^= 0x80 >> (bits % 8)
	return key
}

// closest asks the nearest of those heard of until resiliency of them have
// answered and nobody nearer is left, then the rest of the bucketSize nearest.
func (n *Net) closest(a *Node, key dht.Key, without []task.PeerID) (found []*Node, took time.Duration) {
	n.Lookups++
	for _, peer := range without {
		n.forget(a, peer)
	}
	heard := a.nearest(key, bucketSize, without)
	asked := make(map[*Node]bool)
	ask := func(b *Node) {
		asked[b] = true
		took += 2 * n.Latency / concurrency
		n.Asked++
		if b.Closed || b.Hung || n.apart(a, b) {
			if !b.Closed {
				took = lookTime
			}
			heard = slices.DeleteFunc(heard, func(other *Node) bool { return other == b })
			n.forget(a, b.Member.Peer)
			return
		}
		n.link(a, b)
		n.meet(a, b)
		for _, other := range b.nearest(key, bucketSize, append(without, a.Member.Peer)) {
			if !slices.Contains(heard, other) && !asked[other] {
				heard = append(heard, other)
			}
		}
		byDistance(key, heard)
	}
	for _, most := range []int{resiliency, bucketSize} {
		for i := 0; i < min(most, len(heard)); {
			if asked[heard[i]] {
				i++
				continue
			}
			ask(heard[i])
			i = 0
		}
	}
	return heard[:min(bucketSize, len(heard))], min(took, lookTime)
}

// bootstrap brings a newcomer to those that the queue named, whom it looks around from.
func (n *Net) bootstrap(node *Node, contacts []dht.Member) {
	if n.NoKademlia {
		return
	}
	node.contacts = contacts
	n.call(node)
	n.After(refreshEvery, func() { n.refresh(node) })
}

// call connects a member to those that the queue named.
func (n *Net) call(node *Node) {
	for _, contact := range node.contacts {
		if target := n.nodes[contact.Peer]; target != nil && target != node && target.runs() && !n.apart(node, target) {
			n.link(node, target)
			n.meet(node, target)
		}
	}
}

// refresh looks every part of the key space up, every so often. Who knows nobody
// any more calls those that the queue named, as kad-dht does.
func (n *Net) refresh(node *Node) {
	if node.Closed {
		return
	}
	if node.runs() {
		if node.table.empty() {
			n.call(node)
		}
		n.closest(node, node.key, nil)
		deepest := 0
		for bits := range node.table {
			deepest = max(deepest, bits)
		}
		for bits := range deepest {
			n.closest(node, node.part(bits), nil)
		}
	}
	n.After(refreshEvery, func() { n.refresh(node) })
}
