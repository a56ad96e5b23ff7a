package memnet

import (
	"math/rand/v2"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
)

// Net is a network of overlays. It is thread-unsafe.
type Net struct {
	// Latency of one message; jitter of as much again is added from the seed.
	Latency time.Duration
	// OnAction, if set, sees every action before the network carries it out.
	OnAction func(node *Node, action dht.Action)
	// Queue answers claims; nil leaves them to Registry, and without that
	// every claim is granted with the next epoch.
	Queue func(now time.Time, node *Node, claim dht.Claim) dht.ClaimAnswer
	// Registry, if set, is the queue of Join and of claims where Queue is nil.
	Registry *Registry
	// Contacts is how many members the queue names to a newcomer: 8.
	Contacts int
	// Speaks names the protocol of members of another release: they understand only each
	// other. Of all others it is 0.
	Speaks map[task.PeerID]uint32
	// NoKademlia leaves kad-dht out: tables stay empty and lookups find nobody.
	NoKademlia bool
	// Sent counts messages, Lookups kad-dht's lookups and Asked the members that these
	// have asked.
	Sent, Lookups, Asked int
	// WatchHops keeps Node.Hops, which grow.
	WatchHops bool
	// Spins counts wake-ups after which a member at once wanted the next one:
	// a loop that drives it would burn its processor.
	Spins int

	now    time.Time
	random *rand.Rand
	config dht.Config
	nodes  map[task.PeerID]*Node
	order  []task.PeerID
	events sim.Agenda[event]
	epoch  uint64
	side   map[task.PeerID]int // of a partition
}

// Node is one member.
type Node struct {
	Member  dht.Member
	Overlay *dht.Overlay
	// Closed nodes are gone: their peers notice at once. Hung ones take
	// messages over open connections and do not answer before Resume.
	Closed, Hung bool
	// AutoReply answers broadcasts; nil leaves that to OnAction.
	AutoReply func(payload []byte) []byte
	// Delivered counts broadcasts seen.
	Delivered int
	// Hops lists, per broadcast, the peers this node sent it to, where Net.WatchHops is set.
	Hops map[dht.CastID]map[task.PeerID]bool

	key   dht.Key
	table table
	// contacts are those that the queue named when it joined.
	contacts []dht.Member
	links    map[task.PeerID]*link
	wake     time.Time
	backlog  []dht.Event // came while it hung
}

// link is an open connection, seen from one end.
type link struct {
	far      *Node     // the other end
	other    *link     // seen from there
	last     time.Time // arrival of the last message from the other end
	breaking bool      // cut by a partition, which is about to be noticed
}

// event is a call, or an event of a node; one without either is a wake-up.
type event struct {
	node *Node
	what dht.Event
	call func()
}

// start is when all networks begin.
var start = time.Unix(1_000_000_000, 0)

// New makes an empty network; the same seed gives the same run.
func New(seed uint64, config dht.Config) *Net {
	return &Net{
		Latency: time.Millisecond, Contacts: 8,
		now:    start,
		random: rand.New(rand.NewPCG(seed, seed)),
		config: config,
		nodes:  make(map[task.PeerID]*Node),
		epoch:  1,
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

// Do gives a member an event now.
func (n *Net) Do(node *Node, e dht.Event) {
	switch {
	case node.Closed:
		return
	case node.Hung:
		if _, wake := e.(dht.Tick); !wake {
			node.backlog = append(node.backlog, e)
		}
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
	n.push(deadline, event{node: node})
}

func (n *Net) push(at time.Time, e event) { n.events.Put(at.Sub(start), e) }

// After calls a function once, in the order of events of its moment.
func (n *Net) After(d time.Duration, call func()) {
	n.push(n.now.Add(max(d, 0)), event{call: call})
}

// Every calls a function at regular times from now on.
func (n *Net) Every(interval time.Duration, call func()) {
	n.push(n.now.Add(interval), event{call: func() {
		call()
		n.Every(interval, call)
	}})
}

func (n *Net) schedule(after time.Duration, node *Node, e dht.Event) {
	n.push(n.now.Add(after), event{node: node, what: e})
}

// Run processes events until the condition holds (checked after each event)
// or the virtual time is over; it tells whether the condition held.
func (n *Net) Run(limit time.Duration, until func() bool) bool {
	end := n.now.Add(limit)
	for n.events.Len() > 0 {
		if until != nil && until() {
			return true
		}
		if n.events.First().At > end.Sub(start) {
			break
		}
		next := n.events.Take()
		e := next.Value
		n.now = start.Add(next.At)
		if e.call != nil {
			e.call()
			continue
		}
		if e.what == nil {
			if !e.node.wake.Equal(n.now) {
				continue // planned anew since
			}
			e.node.wake = time.Time{}
			n.Do(e.node, dht.Tick{})
			if next := e.node.Overlay.Deadline(); e.node.runs() && !next.IsZero() && !next.After(n.now) {
				n.Spins++
			}
			continue
		}
		n.Do(e.node, e.what)
	}
	n.now = end
	return until != nil && until()
}
