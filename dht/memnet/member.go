package memnet

import (
	"fmt"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// Join adds a member the way the queue would: the first is master, the
// others learn the master and some random contacts.
func (n *Net) Join() *Node {
	i := len(n.order)
	member := dht.Member{
		Peer:    task.PeerID(fmt.Sprintf("peer-%05d", i)),
		Pilot:   task.PilotID(fmt.Sprintf("p-%05d", i)),
		DataURL: fmt.Sprintf("https://10.0.%d.%d:1", i/250, i%250),
	}
	node := n.newNode(member)
	joined := dht.Joined{Self: member, Contacts: n.contacts()}
	switch {
	case n.Registry != nil:
		joined.Master, joined.Term = n.Registry.register(node)
	case i == 0:
		joined.Master, joined.Term = member, task.Term{Epoch: n.epoch, Peer: member.Peer}
	default:
		joined.Master, joined.Term = n.office()
	}
	n.enter(node, joined)
	return node
}

// Enter adds a member that a queue has registered.
func (n *Net) Enter(joined dht.Joined) *Node {
	node := n.newNode(joined.Self)
	n.enter(node, joined)
	return node
}

func (n *Net) newNode(member dht.Member) *Node {
	return &Node{
		Member: member, Overlay: dht.New(n.config),
		Hops:  make(map[dht.CastID]map[task.PeerID]bool),
		key:   dht.KeyOfPeer(member.Peer),
		table: make(table),
		links: make(map[task.PeerID]*link),
	}
}

func (n *Net) enter(node *Node, joined dht.Joined) {
	n.nodes[node.Member.Peer] = node
	n.order = append(n.order, node.Member.Peer)
	n.bootstrap(node, append([]dht.Member{joined.Master}, joined.Contacts...))
	n.Do(node, joined)
}

// contacts are random members, as the queue names them: those it does not
// know to be gone.
func (n *Net) contacts() []dht.Member {
	var contacts []dht.Member
	for range min(n.Contacts, len(n.order)) {
		if node := n.Node(n.random.IntN(len(n.order))); !node.Closed {
			contacts = append(contacts, node.Member)
		}
	}
	return contacts
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

// runs tells whether a member is there and does not hang.
func (m *Node) runs() bool { return !m.Closed && !m.Hung }

// inOffice tells whether a member takes itself for master.
func (m *Node) inOffice() bool {
	master, _ := m.Overlay.Master()
	return master.Peer == m.Member.Peer
}

// Close makes a member vanish, as kill -9 does: whoever is linked to it hears
// that the connection broke.
func (n *Net) Close(node *Node) {
	node.Closed, node.Overlay = true, dht.New(n.config) // what it knew is of no use any more
	if n.Registry != nil {
		n.Registry.vanished(node)
	}
	for _, peer := range n.order {
		other := n.nodes[peer]
		if other.links[node.Member.Peer] != nil && !other.Closed {
			delete(other.links, node.Member.Peer)
			delete(node.links, peer)
			if n.apart(node, other) {
				n.schedule(cutTime, other, dht.Disconnected{Peer: node.Member.Peer})
				continue
			}
			n.schedule(n.Latency, other, dht.Disconnected{Peer: node.Member.Peer})
		}
	}
}

// Hang stops a member as SIGSTOP does.
func (n *Net) Hang(node *Node) { node.Hung = true }

// Resume lets a hung member go on, with what came for it meanwhile.
func (n *Net) Resume(node *Node) {
	backlog := node.backlog
	node.Hung, node.backlog = false, nil
	for _, e := range backlog {
		n.Do(node, e)
	}
	n.Do(node, dht.Tick{})
}

// Partition cuts the site into parts that do not hear each other; what is on
// its way still arrives. Members that join later are in part 0.
func (n *Net) Partition(part func(*Node) int) {
	n.side = make(map[task.PeerID]int)
	for _, node := range n.Nodes() {
		n.side[node.Member.Peer] = part(node)
	}
}

// Heal ends a partition.
func (n *Net) Heal() { n.side = nil }

// Part is the part of the partitioned site that a member is in.
func (n *Net) Part(node *Node) int { return n.side[node.Member.Peer] }

func (n *Net) apart(a, b *Node) bool {
	return n.Part(a) != n.Part(b) || n.Speaks[a.Member.Peer] != n.Speaks[b.Member.Peer]
}
