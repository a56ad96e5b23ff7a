package live

import (
	"context"
	"slices"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/multiformats/go-multiaddr"
)

// wires are a station's connections in the eyes of who wants a swarm.
type wires struct{ station *station }

var _ network.Network = wires{}

// Peerstore satisfies network.Network, like all methods below.
func (w wires) Peerstore() peerstore.Peerstore { return w.station.Peerstore() }

// LocalPeer is the host's id.
func (w wires) LocalPeer() peer.ID { return w.station.id }

// DialPeer connects to a peer at the addresses that are known.
func (w wires) DialPeer(ctx context.Context, id peer.ID) (network.Conn, error) {
	e, err := w.station.dial(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// ClosePeer ends the connection to a peer.
func (w wires) ClosePeer(id peer.ID) error {
	if e := w.station.to(id); e != nil {
		return e.Close()
	}
	return nil
}

// Connectedness tells whether there is a connection.
func (w wires) Connectedness(id peer.ID) network.Connectedness {
	if w.station.to(id) != nil {
		return network.Connected
	}
	return network.NotConnected
}

// Peers lists those that there are connections to.
func (w wires) Peers() (peers []peer.ID) {
	for _, c := range w.Conns() {
		peers = append(peers, c.RemotePeer())
	}
	return peers
}

// Conns lists the connections.
func (w wires) Conns() (connections []network.Conn) {
	w.station.mutex.Lock()
	defer w.station.mutex.Unlock()
	for _, e := range w.station.ends {
		connections = append(connections, e)
	}
	return connections
}

// ConnsToPeer lists the connection to a peer.
func (w wires) ConnsToPeer(id peer.ID) []network.Conn {
	if e := w.station.to(id); e != nil {
		return []network.Conn{e}
	}
	return nil
}

// Notify has somebody told of connections.
func (w wires) Notify(notifiee network.Notifiee) {
	w.station.mutex.Lock()
	defer w.station.mutex.Unlock()
	w.station.notified = append(w.station.notified, notifiee)
}

// StopNotify ends that.
func (w wires) StopNotify(notifiee network.Notifiee) {
	w.station.mutex.Lock()
	defer w.station.mutex.Unlock()
	w.station.notified = slices.DeleteFunc(w.station.notified, func(other network.Notifiee) bool { return other == notifiee })
}

// CanDial tells whether somebody listens there.
func (w wires) CanDial(id peer.ID, address multiaddr.Multiaddr) bool {
	_, err := w.station.carrier.at(id, []multiaddr.Multiaddr{address})
	return err == nil
}

// SetStreamHandler is the swarm's; a station serves streams itself.
func (w wires) SetStreamHandler(network.StreamHandler) {}

// NewStream opens one without a protocol, which nothing here serves.
func (w wires) NewStream(ctx context.Context, id peer.ID) (network.Stream, error) {
	return w.station.NewStream(ctx, id)
}

// Listen opens the host for others: at an address of its own instead of the one
// wished for, whose port it keeps.
func (w wires) Listen(wishes ...multiaddr.Multiaddr) error {
	for _, wish := range wishes {
		port, err := portOf(wish)
		if err != nil {
			return err
		}
		s := w.station
		address := addressOf(s.ip, port)
		s.mutex.Lock()
		s.address = address
		s.mutex.Unlock()
		s.carrier.announce(s, address)
	}
	return nil
}

// ListenAddresses lists the invented address.
func (w wires) ListenAddresses() []multiaddr.Multiaddr {
	if at, _ := w.station.door(); at != nil {
		return []multiaddr.Multiaddr{at}
	}
	return nil
}

// InterfaceListenAddresses are the same.
func (w wires) InterfaceListenAddresses() ([]multiaddr.Multiaddr, error) {
	return w.ListenAddresses(), nil
}

// ResourceManager bounds nothing.
func (w wires) ResourceManager() network.ResourceManager { return &network.NullResourceManager{} }

// Close is the host's.
func (w wires) Close() error { return w.station.Close() }
