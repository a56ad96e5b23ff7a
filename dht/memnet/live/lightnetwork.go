package live

import (
	"context"
	"fmt"
	"sync"

	busevent "github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/multiformats/go-multiaddr"
)

// lightNetwork keeps one connection per peer: when both dial at once, the one
// that comes second is not made.
type lightNetwork struct {
	host *lightHost

	mutex    sync.Mutex
	byPeer   map[peer.ID]*lightConn
	notified []network.Notifiee
}

var _ network.Network = (*lightNetwork)(nil)

func (n *lightNetwork) to(id peer.ID) *lightConn {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.byPeer[id]
}

// dial connects to a peer at one of some addresses, or at those that are known.
func (n *lightNetwork) dial(ctx context.Context, id peer.ID, addresses []multiaddr.Multiaddr) (*lightConn, error) {
	if c := n.to(id); c != nil {
		return c, nil
	}
	s := n.host.station
	if id == s.id {
		return nil, fmt.Errorf("dial %s: this is it: %w", id, errRefused)
	}
	if len(addresses) == 0 {
		addresses = n.Peerstore().Addrs(id)
	}
	to, err := s.carrier.at(id, addresses)
	if err != nil {
		return nil, err
	}
	if !s.endpoint.Gate().InterceptPeerDial(id) {
		return nil, fmt.Errorf("dial %s: %w", id, errGate)
	}
	l, welcome, err := s.dial(ctx, to)
	if err != nil {
		return nil, err
	}
	if !n.host.station.connect(l, n, welcome) {
		if c := n.to(id); c != nil {
			return c, nil // the other end was quicker
		}
		return nil, fmt.Errorf("dial %s: %w", id, errRefused)
	}
	if c := n.to(id); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("dial %s: %w", id, network.ErrReset)
}

// connect brings a cable into both networks, or into none.
func (s *station) connect(l *cable, n *lightNetwork, welcome func(*end) bool) bool {
	s.carrier.meeting.Lock()
	if n.to(l.far.station.id) != nil || !l.open() {
		s.carrier.meeting.Unlock()
		return false
	}
	near := n.add(l.near)
	made := welcome(l.far)
	s.carrier.meeting.Unlock()
	if !made {
		l.breakUp()
		return false
	}
	n.tell(near)
	return true
}

// welcome takes a connection that another host has dialled.
func (n *lightNetwork) welcome(e *end) bool {
	if !n.host.enter() {
		return false
	}
	c := n.add(e)
	go func() {
		defer n.host.served.Done()
		n.tell(c)
	}()
	return true
}

// add notes a connection; it is there at once.
func (n *lightNetwork) add(e *end) *lightConn {
	c := &lightConn{end: e, network: n}
	n.mutex.Lock()
	n.byPeer[c.RemotePeer()] = c
	n.mutex.Unlock()
	e.whenGone(func() { n.lost(c) })
	return c
}

// tell has everybody hear of a new connection.
func (n *lightNetwork) tell(c *lightConn) {
	for _, notifiee := range n.listeners() {
		notifiee.Connected(n, c)
	}
	n.host.met(c)
}

func (n *lightNetwork) lost(c *lightConn) {
	n.mutex.Lock()
	if n.byPeer[c.RemotePeer()] == c {
		delete(n.byPeer, c.RemotePeer())
	}
	n.mutex.Unlock()
	for _, notifiee := range n.listeners() {
		notifiee.Disconnected(n, c)
	}
	_ = n.host.connectivity.Emit(busevent.EvtPeerConnectednessChanged{Peer: c.RemotePeer(), Connectedness: network.NotConnected}) // closed meanwhile
}

func (n *lightNetwork) listeners() []network.Notifiee {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.notified[:len(n.notified):len(n.notified)]
}

// Peerstore satisfies network.Network, like all methods below.
func (n *lightNetwork) Peerstore() peerstore.Peerstore { return n.host.Peerstore() }

// LocalPeer is the host's id.
func (n *lightNetwork) LocalPeer() peer.ID { return n.host.ID() }

// DialPeer connects to a peer at the addresses that are known.
func (n *lightNetwork) DialPeer(ctx context.Context, id peer.ID) (network.Conn, error) {
	c, err := n.dial(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// ClosePeer ends the connection to a peer.
func (n *lightNetwork) ClosePeer(id peer.ID) error {
	if c := n.to(id); c != nil {
		return c.Close()
	}
	return nil
}

// Connectedness tells whether there is a connection.
func (n *lightNetwork) Connectedness(id peer.ID) network.Connectedness {
	if n.to(id) != nil {
		return network.Connected
	}
	return network.NotConnected
}

// Peers lists those that there are connections to.
func (n *lightNetwork) Peers() []peer.ID {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	peers := make([]peer.ID, 0, len(n.byPeer))
	for id := range n.byPeer {
		peers = append(peers, id)
	}
	return peers
}

// Conns lists the connections.
func (n *lightNetwork) Conns() []network.Conn {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	connections := make([]network.Conn, 0, len(n.byPeer))
	for _, c := range n.byPeer {
		connections = append(connections, c)
	}
	return connections
}

// ConnsToPeer lists the connection to a peer.
func (n *lightNetwork) ConnsToPeer(id peer.ID) []network.Conn {
	if c := n.to(id); c != nil {
		return []network.Conn{c}
	}
	return nil
}

// Notify has somebody told of connections.
func (n *lightNetwork) Notify(notifiee network.Notifiee) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.notified = append(n.notified, notifiee)
}

// StopNotify ends that.
func (n *lightNetwork) StopNotify(notifiee network.Notifiee) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var rest []network.Notifiee
	for _, other := range n.notified {
		if other != notifiee {
			rest = append(rest, other)
		}
	}
	n.notified = rest
}

// CanDial tells whether somebody listens there.
func (n *lightNetwork) CanDial(id peer.ID, address multiaddr.Multiaddr) bool {
	_, err := n.host.station.carrier.at(id, []multiaddr.Multiaddr{address})
	return err == nil
}

// SetStreamHandler is the swarm's; a light host serves streams itself.
func (n *lightNetwork) SetStreamHandler(network.StreamHandler) {}

// NewStream opens one without a protocol, which nothing here serves.
func (n *lightNetwork) NewStream(ctx context.Context, id peer.ID) (network.Stream, error) {
	return n.host.NewStream(ctx, id)
}

// Listen opens the host for others, at an invented address.
func (n *lightNetwork) Listen(wishes ...multiaddr.Multiaddr) error {
	for _, wish := range wishes {
		if _, err := n.host.station.listen(wish, n.welcome); err != nil {
			return err
		}
	}
	return nil
}

// ListenAddresses lists the invented address.
func (n *lightNetwork) ListenAddresses() []multiaddr.Multiaddr {
	_, entry, _ := n.host.station.state()
	if entry.address == nil {
		return nil
	}
	return []multiaddr.Multiaddr{entry.address}
}

// InterfaceListenAddresses are the same.
func (n *lightNetwork) InterfaceListenAddresses() ([]multiaddr.Multiaddr, error) {
	return n.ListenAddresses(), nil
}

// ResourceManager bounds nothing.
func (n *lightNetwork) ResourceManager() network.ResourceManager {
	return &network.NullResourceManager{}
}

// Close is the host's.
func (n *lightNetwork) Close() error { return n.host.Close() }
