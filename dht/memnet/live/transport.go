package live

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// newMemoryHost makes a libp2p host whose only transport is the carrier's.
func newMemoryHost(s *station) (host.Host, error) {
	options, err := s.endpoint.Options()
	if err != nil {
		return nil, err
	}
	made, err := libp2p.New(append(options,
		libp2p.NoSecurity, // the transport's connections are through with that
		libp2p.Peerstore(s.carrier.book),
		libp2p.Transport(func(resources network.ResourceManager) *memoryTransport {
			return &memoryTransport{station: s, resources: resources}
		}),
	)...)
	if err != nil {
		return nil, fmt.Errorf("start libp2p in memory: %w", err)
	}
	return made, nil
}

// memoryTransport claims TCP. Its streams are the carrier's, so that there is
// neither a handshake nor a multiplexer above it.
type memoryTransport struct {
	station   *station
	resources network.ResourceManager
}

var _ transport.Transport = (*memoryTransport)(nil)

// Dial satisfies transport.Transport.
func (t *memoryTransport) Dial(ctx context.Context, address multiaddr.Multiaddr, id peer.ID) (transport.CapableConn, error) {
	to, err := t.station.carrier.at(id, []multiaddr.Multiaddr{address})
	if err != nil {
		return nil, err
	}
	l, welcome, err := t.station.dial(ctx, to)
	if err != nil {
		return nil, err
	}
	connection, err := t.connection(l.near, network.DirOutbound)
	if err != nil {
		return nil, err
	}
	if !l.open() || !welcome(l.far) {
		l.breakUp()
		return nil, fmt.Errorf("dial %s: %w", id, errRefused)
	}
	return connection, nil
}

// connection gives an end its share of the node's resources.
func (t *memoryTransport) connection(e *end, direction network.Direction) (*memoryConn, error) {
	scope, err := t.resources.OpenConnection(direction, true, e.remote)
	if err != nil {
		return nil, err
	}
	if err := scope.SetPeer(e.other().station.id); err != nil {
		scope.Done()
		return nil, err
	}
	e.whenGone(scope.Done)
	return &memoryConn{end: e, transport: t, scope: scope}, nil
}

// CanDial satisfies transport.Transport.
func (t *memoryTransport) CanDial(address multiaddr.Multiaddr) bool {
	_, err := address.ValueForProtocol(multiaddr.P_TCP)
	return err == nil
}

// Protocols satisfies transport.Transport.
func (t *memoryTransport) Protocols() []int { return []int{multiaddr.P_TCP} }

// Proxy satisfies transport.Transport.
func (t *memoryTransport) Proxy() bool { return false }

// Listen satisfies transport.Transport; the address is an invented one.
func (t *memoryTransport) Listen(wish multiaddr.Multiaddr) (transport.Listener, error) {
	l := &memoryListener{transport: t, closed: make(chan struct{}), waiting: make(chan *memoryConn)}
	address, err := t.station.listen(wish, l.welcome)
	l.address = address
	return l, err
}

type memoryListener struct {
	transport *memoryTransport
	address   multiaddr.Multiaddr
	waiting   chan *memoryConn
	once      sync.Once
	closed    chan struct{}
}

// welcome hands an inbound connection over to Accept.
func (l *memoryListener) welcome(e *end) bool {
	connection, err := l.transport.connection(e, network.DirInbound)
	if err != nil {
		return false
	}
	select {
	case l.waiting <- connection:
		return true
	case <-l.closed:
		return false
	}
}

// Accept satisfies transport.Listener.
func (l *memoryListener) Accept() (transport.CapableConn, error) {
	select {
	case connection := <-l.waiting:
		return connection, nil
	case <-l.closed:
		return nil, transport.ErrListenerClosed
	}
}

// Close satisfies transport.Listener: the node is about to end.
func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	l.transport.station.shut()
	return nil
}

// Addr satisfies transport.Listener.
func (l *memoryListener) Addr() net.Addr {
	address, err := manet.ToNetAddr(l.address)
	if err != nil {
		panic("memnet: " + err.Error()) // it was made from such a one
	}
	return address
}

// Multiaddr satisfies transport.Listener.
func (l *memoryListener) Multiaddr() multiaddr.Multiaddr { return l.address }

// memoryConn is one end of a cable in a swarm's eyes.
type memoryConn struct {
	*end
	transport *memoryTransport
	scope     network.ConnManagementScope
}

var _ transport.CapableConn = (*memoryConn)(nil)

// OpenStream satisfies network.MuxedConn.
func (c *memoryConn) OpenStream(context.Context) (network.MuxedStream, error) {
	near, far, err := newStreams(c.end, "")
	if err != nil {
		return nil, err
	}
	c.other().offer(far)
	return near, nil
}

// AcceptStream satisfies network.MuxedConn.
func (c *memoryConn) AcceptStream() (network.MuxedStream, error) {
	s, err := c.accept()
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close satisfies network.MuxedConn.
func (c *memoryConn) Close() error {
	c.cable.breakUp()
	return nil
}

// CloseWithError satisfies network.MuxedConn.
func (c *memoryConn) CloseWithError(network.ConnErrorCode) error { return c.Close() }

// IsClosed satisfies network.MuxedConn.
func (c *memoryConn) IsClosed() bool { return c.isClosed() }

// As satisfies network.MuxedConn: there is nothing below.
func (c *memoryConn) As(any) bool { return false }

// Scope satisfies network.ConnScoper.
func (c *memoryConn) Scope() network.ConnScope { return c.scope }

// Transport satisfies transport.CapableConn.
func (c *memoryConn) Transport() transport.Transport { return c.transport }

// LocalPeer satisfies network.ConnSecurity.
func (e *end) LocalPeer() peer.ID { return e.station.id }

// RemotePeer satisfies network.ConnSecurity.
func (e *end) RemotePeer() peer.ID { return e.other().station.id }

// RemotePublicKey satisfies network.ConnSecurity.
func (e *end) RemotePublicKey() crypto.PubKey { return e.other().station.key() }

// ConnState satisfies network.ConnSecurity.
func (e *end) ConnState() network.ConnectionState {
	return network.ConnectionState{Transport: "memory"}
}

// LocalMultiaddr satisfies network.ConnMultiaddrs.
func (e *end) LocalMultiaddr() multiaddr.Multiaddr { return e.local }

// RemoteMultiaddr satisfies network.ConnMultiaddrs.
func (e *end) RemoteMultiaddr() multiaddr.Multiaddr { return e.remote }
