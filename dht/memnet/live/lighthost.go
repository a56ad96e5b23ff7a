package live

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/libp2p/go-libp2p/core/connmgr"
	busevent "github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/multiformats/go-multiaddr"
	"github.com/multiformats/go-multistream"
)

// lightHost is a libp2p host without a swarm: what two hosts of one process
// have to tell each other about themselves, they look up.
type lightHost struct {
	station *station
	network *lightNetwork
	bus     busevent.Bus
	mux     *multistream.MultistreamMuxer[protocol.ID]
	served  sync.WaitGroup // handlers of streams

	identified   busevent.Emitter
	connectivity busevent.Emitter

	mutex    sync.Mutex
	handlers map[protocol.ID]network.StreamHandler
	closed   bool
}

var _ host.Host = (*lightHost)(nil)

func newLightHost(s *station) (*lightHost, error) {
	h := &lightHost{
		station: s, bus: eventbus.NewBus(), mux: multistream.NewMultistreamMuxer[protocol.ID](),
		handlers: make(map[protocol.ID]network.StreamHandler),
	}
	h.network = &lightNetwork{host: h, byPeer: make(map[peer.ID]*lightConn)}
	var err error
	if h.identified, err = h.bus.Emitter(new(busevent.EvtPeerIdentificationCompleted)); err != nil {
		return nil, fmt.Errorf("a light host: %w", err)
	}
	if h.connectivity, err = h.bus.Emitter(new(busevent.EvtPeerConnectednessChanged)); err != nil {
		return nil, fmt.Errorf("a light host: %w", err)
	}
	s.host = h
	return h, nil
}

// ID satisfies host.Host, like all exported methods.
func (h *lightHost) ID() peer.ID { return h.station.id }

// Peerstore is the one that all hosts of the carrier share.
func (h *lightHost) Peerstore() peerstore.Peerstore { return h.station.carrier.book }

// Addrs lists the invented address, once the host listens.
func (h *lightHost) Addrs() []multiaddr.Multiaddr { return h.network.ListenAddresses() }

// Network is a small stand-in for the swarm.
func (h *lightHost) Network() network.Network { return h.network }

// Mux knows the names of the protocols; nothing is negotiated with it.
func (h *lightHost) Mux() protocol.Switch { return h.mux }

// ConnManager trims nothing: a connection costs some hundred bytes.
func (h *lightHost) ConnManager() connmgr.ConnManager { return connmgr.NullConnMgr{} }

// EventBus tells of connections and of those that have been identified.
func (h *lightHost) EventBus() busevent.Bus { return h.bus }

// Connect dials unless there is a connection.
func (h *lightHost) Connect(ctx context.Context, to peer.AddrInfo) error {
	_, err := h.network.dial(ctx, to.ID, to.Addrs)
	return err
}

// SetStreamHandler has a protocol served.
func (h *lightHost) SetStreamHandler(id protocol.ID, handler network.StreamHandler) {
	h.mutex.Lock()
	h.handlers[id] = handler
	h.mutex.Unlock()
	h.mux.AddHandler(id, nil)
	_ = h.Peerstore().AddProtocols(h.ID(), id) // fails for more protocols than a host has
}

// SetStreamHandlerMatch serves the one protocol that is named.
func (h *lightHost) SetStreamHandlerMatch(id protocol.ID, _ func(protocol.ID) bool, handler network.StreamHandler) {
	h.SetStreamHandler(id, handler)
}

// RemoveStreamHandler has a protocol served no more.
func (h *lightHost) RemoveStreamHandler(id protocol.ID) {
	h.mutex.Lock()
	delete(h.handlers, id)
	h.mutex.Unlock()
	h.mux.RemoveHandler(id)
	_ = h.Peerstore().RemoveProtocols(h.ID(), id) // as above
}

// NewStream opens a stream for the first of the protocols that the other host
// serves.
func (h *lightHost) NewStream(ctx context.Context, id peer.ID, protocols ...protocol.ID) (network.Stream, error) {
	connection := h.network.to(id)
	if connection == nil {
		if forbidden, reason := network.GetNoDial(ctx); forbidden {
			return nil, fmt.Errorf("open a stream to %s, %s: %w", id, reason, network.ErrNoConn)
		}
		var err error
		if connection, err = h.network.dial(ctx, id, nil); err != nil {
			return nil, err
		}
	}
	return connection.open(protocols)
}

// handler chooses what serves one of some protocols.
func (h *lightHost) handler(protocols []protocol.ID) (protocol.ID, network.StreamHandler, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, id := range protocols {
		if handler := h.handlers[id]; handler != nil && !h.closed {
			h.served.Add(1)
			return id, handler, nil
		}
	}
	return "", nil, fmt.Errorf("%s serves none of %v: %w", h.ID(), protocols, errRefused)
}

// enter counts a goroutine among those that Close waits for; after Close it may
// not start.
func (h *lightHost) enter() bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.closed {
		return false
	}
	h.served.Add(1)
	return true
}

// Close ends all connections and waits for the handlers.
func (h *lightHost) Close() error {
	h.mutex.Lock()
	h.closed = true
	h.mutex.Unlock()
	h.station.shut()
	h.served.Wait()
	return errors.Join(h.identified.Close(), h.connectivity.Close())
}

// met tells this host's services of a connection that was made.
func (h *lightHost) met(c *lightConn) {
	id := c.RemotePeer()
	_ = h.connectivity.Emit(busevent.EvtPeerConnectednessChanged{Peer: id, Connectedness: network.Connected}) // closed meanwhile
	protocols, err := h.Peerstore().GetProtocols(id)
	if err != nil {
		return // it serves nothing
	}
	_ = h.identified.Emit(busevent.EvtPeerIdentificationCompleted{
		Peer: id, Conn: c, Protocols: protocols, ListenAddrs: h.Peerstore().Addrs(id), AgentVersion: "pilotage",
	})
}
