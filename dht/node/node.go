package node

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/semaphore"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/wire"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/internal/loop"
	"github.com/pilotage-grid/pilotage/task"
)

// ErrClosed says that the node was closed.
var ErrClosed = errors.New("the overlay node is closed")

// inFlight bounds, in bytes, the messages that were read from the network and
// wait for the loop.
const inFlight = 64 << 20

// Node is one pilot's place in its site's overlay. Its methods are safe for
// concurrent use.
type Node struct {
	config     Config
	log        *slog.Logger
	clock      func() time.Time
	self       task.PeerID
	host       host.Host
	life       life
	routing    routing
	membership *membership
	gate       *gate
	word       word
	loop       *loop.Loop // what comes from the network is bounded before it gets here
	streams    inboundStreams
	lanes      *lanes
	probes     probes
	questions  questions

	mutex   sync.Mutex // guards overlay; hooks run without it
	overlay *dht.Overlay

	protected protection

	// Touched by the loop only.
	dialling map[task.PeerID]bool
	hooks    Hooks // set once, before the first event
}

// Listen opens the overlay's port. Connections are refused until Join, and
// nothing is sent.
func Listen(config Config) (*Node, error) {
	config, err := config.complete()
	if err != nil {
		return nil, err
	}
	n := &Node{
		config: config, log: config.Logger, clock: config.Clock, self: config.Key.Peer(),
		membership: newMembership(config), gate: &gate{verifier: config.Verifier},
		loop: loop.New(), overlay: dht.New(config.Overlay), dialling: make(map[task.PeerID]bool), hooks: Hooks{}.complete(),
	}
	n.life.begin()
	n.routing.bootstrapped = make(chan struct{})
	n.questions.open = make(map[uint64]chan map[task.FileKey][]dht.Holder)
	n.word.begin(config)
	n.lanes = newLanes(n)
	n.streams.open, n.streams.inFlight = make(map[streamKey]*inboundStream), semaphore.NewWeighted(inFlight)
	n.probes.last = make(map[peer.ID]time.Time)
	endpoint := Endpoint{Key: config.Key, Advertise: config.Advertise, membership: n.membership, gate: n.gate}
	if n.host, err = config.Carrier.Host(endpoint); err != nil {
		n.life.cancel()
		return nil, err
	}
	n.streams.manager = n.host.ConnManager()
	n.protected = protection{manager: n.host.ConnManager(), workers: make(map[peer.ID]bool)}
	if err := n.serve(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// serve registers every protocol before the port opens, so that the first
// identify names them all.
func (n *Node) serve() error {
	for c := range channels {
		n.host.SetStreamHandler(c.protocol(n.config.Site), func(s network.Stream) { n.receive(c, s) })
	}
	n.host.SetStreamHandler(probeProtocol(n.config.Site), n.answerProbe)
	if err := n.routing.open(n.host, n.config); err != nil {
		return err
	}
	n.tellRouting()
	n.host.Network().Notify(&network.NotifyBundle{ConnectedF: n.met, DisconnectedF: n.disconnected})
	return listen(n.host, n.config)
}

// Addresses lists the multiaddresses that the node listens on, without the
// peer id.
func (n *Node) Addresses() []string {
	var texts []string
	for _, address := range n.host.Network().ListenAddresses() {
		texts = append(texts, address.String())
	}
	return texts
}

// Join opens the node for the members of its site and starts the overlay with
// what the registration answered. The certificate is this pilot's membership
// in DER form. Addresses of j.Self may be left out: the node's own are taken.
func (n *Node) Join(certificate []byte, j dht.Joined, h Hooks) error {
	member, err := n.config.Verifier.VerifySite(certificate, n.config.Site, n.clock())
	if err != nil {
		return fmt.Errorf("join the overlay: the certificate from the queue: %w", err)
	}
	if member.Peer != n.self || j.Self.Peer != n.self {
		return fmt.Errorf("join the overlay: the registration is for peer %s (certificate) and %s, this is %s: %w",
			member.Peer, j.Self.Peer, n.self, identity.ErrWrongKey)
	}
	if len(j.Self.Addresses) == 0 {
		j.Self.Addresses = n.Addresses()
	}
	known := append([]dht.Member{j.Master}, j.Contacts...)
	if err := n.life.join(func() { n.hooks = h.complete() }); err != nil {
		return err
	}
	n.routing.know(n.host.ID(), known)
	n.membership.set(certificate)
	n.word.grants.learn(j.Term, j.Signature)
	n.gate.open.Store(true)
	n.post(j)
	n.life.start(func() { n.bootstrap(n.life.ctx, known) })
	return nil
}

// post gives the core an event, in order.
func (n *Node) post(e dht.Event) { n.loop.Post(func() { n.step(e) }) }

// Broadcast sends bytes to every member, this one included. number is the
// caller's and unique; with reply set, Hooks.Done follows under it.
func (n *Node) Broadcast(number uint64, payload []byte, reply bool) {
	n.post(dht.Broadcast{N: number, Payload: wire.PackPayload(payload), Reply: reply})
}

// Reply answers a Deliver that wanted it.
func (n *Node) Reply(id dht.CastID, data []byte) { n.post(dht.Reply{ID: id, Data: data}) }

// Send sends bytes to one member, at most once and in order; when the
// connection breaks some may be lost.
func (n *Node) Send(to task.PeerID, data []byte) { n.post(dht.SendApp{To: to, Data: data}) }

// Announce tells the site that this pilot holds files.
func (n *Node) Announce(files ...task.FileKey) { n.post(dht.Announce{Files: files}) }

// Withdraw tells the site that it no longer does.
func (n *Node) Withdraw(files ...task.FileKey) { n.post(dht.Withdraw{Files: files}) }

// Fenced tells the overlay that the queue refused this term of a master because
// another one is in office.
func (n *Node) Fenced(term task.Term) { n.post(dht.Fenced{Term: term}) }

// Deny cuts peers off for good: no new connection, and those open are closed. If the
// queue has signed the list, other members hear it as well.
func (n *Node) Deny(list dht.Denial) {
	n.word.denials.learn(list)
	n.config.Verifier.Deny(list.Peers)
	n.post(dht.Denied{Peers: n.config.Verifier.Denied()})
	for _, p := range list.Peers {
		if id, err := peer.Decode(string(p)); err == nil {
			n.hangUp(id)
		}
	}
}

// hangUp closes a peer's connections without making the caller wait.
func (n *Node) hangUp(id peer.ID) {
	n.life.start(func() { _ = n.host.Network().ClosePeer(id) }) // what cannot be closed is broken
}

// Nearest returns up to n live members nearest to a file's key, nearest first;
// this pilot may be among them.
func (n *Node) Nearest(file task.FileKey, most int) []dht.Member {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.overlay.Nearest(file, most)
}

// Member finds a member by its peer id.
func (n *Node) Member(id task.PeerID) (dht.Member, bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.overlay.Member(id)
}

// Members lists, in the order of the Kademlia ids, the members that this pilot
// knows; as master all.
func (n *Node) Members() []dht.Member {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.overlay.Members()
}

// Size is how many members this pilot knows, itself included.
func (n *Node) Size() int {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.overlay.Size()
}

// Master is the member in office as far as this pilot knows.
func (n *Node) Master() (dht.Member, task.Term) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.overlay.Master()
}

// Redirect tells a member who is nearer to a file than this pilot, if it knows
// somebody; it tells whether it did.
func (n *Node) Redirect(to task.PeerID, file task.FileKey) bool {
	nearest := n.Nearest(file, 1)
	if len(nearest) == 0 || nearest[0].Peer == n.self || nearest[0].Peer == to {
		return false
	}
	n.post(dht.Redirect{To: to, File: file})
	return true
}
