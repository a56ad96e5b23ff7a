package memnet

import (
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

const (
	// dialTime is after how long a dial fails that nobody answers.
	dialTime = 3 * time.Second
	// cutTime is after how long both ends of a connection notice that a
	// partition swallows their messages.
	cutTime = 5 * time.Second
)

func (n *Net) carryOut(node *Node, action dht.Action) {
	switch a := action.(type) {
	case dht.Send:
		n.send(node, a)
	case dht.Dial:
		n.dial(node, a.Member.Peer)
	case dht.Lookup:
		n.lookup(node, a)
	case dht.Forget:
		n.forget(node, a.Peer)
	case dht.Claim:
		n.schedule(2*n.Latency, node, n.answerClaim(node, a))
	case dht.Deliver:
		node.Delivered++
		if a.Reply && node.AutoReply != nil {
			n.schedule(0, node, dht.Reply{ID: a.ID, Data: node.AutoReply(a.Payload)})
		}
	}
}

func (n *Net) dial(node *Node, peer task.PeerID) {
	target := n.nodes[peer]
	switch {
	case target == nil || target.Closed:
		n.schedule(n.Latency, node, dht.Dialled{Peer: peer, Refused: true})
	case n.apart(node, target) || target.Hung && node.links[peer] == nil:
		n.schedule(dialTime, node, dht.Dialled{Peer: peer})
	default:
		n.link(node, target)
		n.schedule(n.Latency, node, dht.Dialled{Peer: peer, OK: true})
	}
}

func (n *Net) answerClaim(node *Node, claim dht.Claim) dht.ClaimAnswer {
	switch {
	case n.Queue != nil:
		return n.Queue(n.now, node, claim)
	case n.Registry != nil:
		return n.Registry.claim(n.now, node, claim)
	}
	n.epoch++
	return dht.ClaimAnswer{Reached: true, Granted: true, Term: task.Term{Epoch: n.epoch, Peer: node.Member.Peer}, Master: node.Member}
}

// send carries a message. Two messages from one member to another arrive in
// the order they were sent, as on one connection.
func (n *Net) send(node *Node, a dht.Send) {
	n.Sent++
	known := node.links[a.To]
	var target *Node
	if known != nil {
		target = known.far
	} else {
		target = n.nodes[a.To]
	}
	switch {
	case target == nil || target.Closed:
		n.schedule(n.Latency, node, dht.Disconnected{Peer: a.To})
		return
	case known == nil && (target.Hung || n.apart(node, target)):
		n.schedule(dialTime, node, dht.Disconnected{Peer: a.To})
		return
	case n.apart(node, target):
		n.cut(node, target)
		return
	}
	if cast, ok := a.Message.(dht.Cast); ok && n.WatchHops {
		if node.Hops[cast.ID] == nil {
			node.Hops[cast.ID] = make(map[task.PeerID]bool)
		}
		node.Hops[cast.ID][a.To] = true
	}
	if known == nil {
		known = n.link(node, target)
	}
	at := n.now.Add(n.Latency + time.Duration(n.random.Int64N(int64(n.Latency))))
	arrivals := known.other
	if at.Before(arrivals.last) {
		at = arrivals.last
	}
	arrivals.last = at
	n.push(at, event{node: target, what: dht.Received{From: node.Member.Peer, Message: a.Message}})
}

// link connects two members, unless they are, and returns the end at the first.
func (n *Net) link(a, b *Node) *link {
	known := a.links[b.Member.Peer]
	if known == nil {
		back := &link{far: a}
		known = &link{far: b, other: back}
		back.other = known
		a.links[b.Member.Peer], b.links[a.Member.Peer] = known, back
		n.meet(a, b)
	}
	return known
}

// cut lets both ends of a connection notice that nothing comes through.
func (n *Net) cut(a, b *Node) {
	if a.links[b.Member.Peer].breaking {
		return
	}
	a.links[b.Member.Peer].breaking = true
	n.push(n.now.Add(cutTime), event{call: func() {
		delete(a.links, b.Member.Peer)
		delete(b.links, a.Member.Peer)
		n.Do(a, dht.Disconnected{Peer: b.Member.Peer})
		n.Do(b, dht.Disconnected{Peer: a.Member.Peer})
	}})
}
