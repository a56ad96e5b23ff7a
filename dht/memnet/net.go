package memnet

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// Net is a network of overlays. It is thread-unsafe.
type Net struct {
	// Latency of one message; jitter of as much again is added from the seed.
	Latency time.Duration
	// OnAction, if set, sees every action before the network carries it out.
	OnAction func(node *Node, action dht.Action)
	// Queue answers claims; nil grants every claim with the next epoch.
	Queue func(now time.Time, node *Node, claim dht.Claim) dht.ClaimAnswer
	// Sent counts messages.
	Sent int

	now    time.Time
	random *rand.Rand
	config dht.Config
	nodes  map[task.PeerID]*Node
	order  []task.PeerID
	events eventHeap
	seq    uint64
	epoch  uint64
}

// Node is one member.
type Node struct {
	Member  dht.Member
	Overlay *dht.Overlay
	// Closed nodes are gone: their peers notice at once. Hung ones take
	// messages and never answer.
	Closed, Hung bool
	// AutoReply answers broadcasts; nil leaves that to OnAction.
	AutoReply func(payload []byte) []byte
	// Delivered counts broadcasts seen.
	Delivered map[dht.CastID]int
	// Hops lists, per broadcast, the peers this node sent it to.
	Hops map[dht.CastID]map[task.PeerID]bool

	links map[task.PeerID]bool
	wake  time.Time
}

type event struct {
	at   time.Time
	seq  uint64
	node *Node
	what dht.Event // nil: wake-up
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push and Pop satisfy heap.Interface.
func (h *eventHeap) Push(x any) { *h = append(*h, x.(event)) }

// Pop satisfies heap.Interface.
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// New makes an empty network; the same seed gives the same run.
func New(seed uint64, config dht.Config) *Net {
	return &Net{
		Latency: time.Millisecond,
		now:     time.Unix(1_000_000_000, 0),
		random:  rand.New(rand.NewPCG(seed, seed)),
		config:  config,
		nodes:   make(map[task.PeerID]*Node),
		epoch:   1,
	}
}

// Now is the virtual time.
func (n *Net) Now() time.Time { return n.now }

// Node returns a member by its number of arrival.
func (n *Net) Node(i int) *Node { return n.nodes[n.order[i]] }

// Len is the number of members that ever joined.
func (n *Net) Len() int { return len(n.order) }

// Nodes lists members in order of arrival.
func (n *Net) Nodes() []*Node {
	nodes := make([]*Node, len(n.order))
	for i := range n.order {
		nodes[i] = n.Node(i)
	}
	return nodes
}

// Join adds a member the way the queue would: the first is master, the
// others learn the master and some random contacts.
func (n *Net) Join() *Node {
	i := len(n.order)
	member := dht.Member{
		Peer:    task.PeerID(fmt.Sprintf("peer-%05d", i)),
		Pilot:   task.PilotID(fmt.Sprintf("p-%05d", i)),
		DataURL: fmt.Sprintf("https://10.0.%d.%d:1", i/250, i%250),
	}
	node := &Node{
		Member: member, Overlay: dht.New(n.config),
		Delivered: make(map[dht.CastID]int),
		Hops:      make(map[dht.CastID]map[task.PeerID]bool),
		links:     make(map[task.PeerID]bool),
	}
	joined := dht.Joined{Self: member, Master: member, Term: task.Term{Epoch: n.epoch, Peer: member.Peer}}
	if i > 0 {
		joined.Master, joined.Term = n.office()
		for range min(8, i) {
			joined.Contacts = append(joined.Contacts, n.Node(n.random.IntN(i)).Member)
		}
	}
	n.nodes[member.Peer] = node
	n.order = append(n.order, member.Peer)
	n.Do(node, joined)
	return node
}

// office is the master that the queue would name: of the live ones, the one
// with the highest term in its own eyes.
func (n *Net) office() (dht.Member, task.Term) {
	var master dht.Member
	var term task.Term
	for _, node := range n.Nodes() {
		m, t := node.Overlay.Master()
		if !node.Closed && m.Peer == node.Member.Peer && !t.Less(term) {
			master, term = m, t
		}
	}
	return master, term
}

// Close makes a member vanish, as kill -9 does: whoever is linked to it hears
// that the connection broke.
func (n *Net) Close(node *Node) {
	node.Closed = true
	for _, peer := range n.order {
		if other := n.nodes[peer]; other.links[node.Member.Peer] && !other.Closed {
			n.schedule(n.Latency, other, dht.Disconnected{Peer: node.Member.Peer})
		}
	}
}

// Do gives a member an event now.
func (n *Net) Do(node *Node, e dht.Event) {
	if node.Closed || node.Hung {
		return
	}
	for _, action := range node.Overlay.Step(n.now, e) {
		if n.OnAction != nil {
			n.OnAction(node, action)
		}
		n.carryOut(node, action)
	}
	n.plan(node)
}

func (n *Net) plan(node *Node) {
	deadline := node.Overlay.Deadline()
	if deadline.IsZero() || !node.wake.IsZero() && !deadline.Before(node.wake) && node.wake.After(n.now) {
		return
	}
	if deadline.Before(n.now) {
		deadline = n.now
	}
	node.wake = deadline
	n.push(event{at: deadline, node: node})
}

func (n *Net) push(e event) {
	n.seq++
	e.seq = n.seq
	heap.Push(&n.events, e)
}

func (n *Net) schedule(after time.Duration, node *Node, e dht.Event) {
	n.push(event{at: n.now.Add(after), node: node, what: e})
}

func (n *Net) carryOut(node *Node, action dht.Action) {
	switch a := action.(type) {
	case dht.Send:
		n.send(node, a)
	case dht.Dial:
		target := n.nodes[a.Member.Peer]
		ok := target != nil && !target.Closed
		if ok {
			n.link(node, target)
		}
		n.schedule(n.Latency, node, dht.Dialled{Peer: a.Member.Peer, OK: ok})
	case dht.Claim:
		n.schedule(2*n.Latency, node, n.answerClaim(node, a))
	case dht.Deliver:
		node.Delivered[a.ID]++
		if a.Reply && node.AutoReply != nil {
			n.schedule(0, node, dht.Reply{ID: a.ID, Data: node.AutoReply(a.Payload)})
		}
	}
}

func (n *Net) answerClaim(node *Node, claim dht.Claim) dht.ClaimAnswer {
	if n.Queue != nil {
		return n.Queue(n.now, node, claim)
	}
	n.epoch++
	return dht.ClaimAnswer{Reached: true, Granted: true, Term: task.Term{Epoch: n.epoch, Peer: node.Member.Peer}, Master: node.Member}
}

func (n *Net) send(node *Node, a dht.Send) {
	n.Sent++
	target := n.nodes[a.To]
	if target == nil || target.Closed {
		n.schedule(n.Latency, node, dht.Disconnected{Peer: a.To})
		return
	}
	if cast, ok := a.Message.(dht.Cast); ok {
		if node.Hops[cast.ID] == nil {
			node.Hops[cast.ID] = make(map[task.PeerID]bool)
		}
		node.Hops[cast.ID][a.To] = true
	}
	n.link(node, target)
	n.schedule(n.Latency+time.Duration(n.random.Int64N(int64(n.Latency))), target, dht.Received{From: node.Member.Peer, Message: a.Message})
}

func (n *Net) link(a, b *Node) {
	a.links[b.Member.Peer], b.links[a.Member.Peer] = true, true
}

// Run processes events until the condition holds (checked after each event)
// or the virtual time is over; it tells whether the condition held.
func (n *Net) Run(limit time.Duration, until func() bool) bool {
	end := n.now.Add(limit)
	for len(n.events) > 0 {
		if until != nil && until() {
			return true
		}
		if n.events[0].at.After(end) {
			break
		}
		e := heap.Pop(&n.events).(event)
		n.now = e.at
		if e.what == nil {
			if !e.node.wake.Equal(e.at) {
				continue // planned anew since
			}
			e.node.wake = time.Time{}
			e.what = dht.Tick{}
		}
		n.Do(e.node, e.what)
	}
	n.now = end
	return until != nil && until()
}
