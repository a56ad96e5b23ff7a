package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

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

	"github.com/pilotage-grid/pilotage/dht/node"
)

// Reasons why a connection is not made.
var (
	errRefused     = fmt.Errorf("dial in memory: %w", syscall.ECONNREFUSED)
	errUnreachable = errors.New("no route to host")
	errGate        = errors.New("the other end wants no connection")
)

// station is one node's place on a carrier: a libp2p host without a swarm. What two
// hosts of one process have to tell each other about themselves, they look up.
type station struct {
	carrier  *Carrier
	id       peer.ID
	ip       netip.Addr
	endpoint node.Endpoint
	bus      busevent.Bus
	mux      *multistream.MultistreamMuxer[protocol.ID]
	served   sync.WaitGroup // handlers of streams
	hung     atomic.Bool
	traffic  counters

	identified   busevent.Emitter
	connectivity busevent.Emitter

	mutex    sync.Mutex
	gone     bool                // closed or killed; written with the carrier's meeting held, too
	ends     map[peer.ID]*end    // of the open connections, one for each peer; written likewise
	thawed   chan struct{}       // closed when it hangs no more
	address  multiaddr.Multiaddr // where it listens
	handlers map[protocol.ID]network.StreamHandler
	notified []network.Notifiee
}

var _ host.Host = (*station)(nil)

func newStation(c *Carrier, id peer.ID, ip netip.Addr) (s *station, err error) {
	s = &station{
		carrier: c, id: id, ip: ip, bus: eventbus.NewBus(), mux: multistream.NewMultistreamMuxer[protocol.ID](),
		ends: make(map[peer.ID]*end), handlers: make(map[protocol.ID]network.StreamHandler),
	}
	if s.identified, err = s.bus.Emitter(new(busevent.EvtPeerIdentificationCompleted)); err == nil {
		s.connectivity, err = s.bus.Emitter(new(busevent.EvtPeerConnectednessChanged))
	}
	if err != nil {
		return nil, fmt.Errorf("a light host: %w", err)
	}
	return s, nil
}

// shut ends everything that the station has open; nobody reaches it any more.
func (s *station) shut() {
	s.carrier.meeting.Lock()
	s.mutex.Lock()
	s.gone = true
	ends := slices.Collect(maps.Values(s.ends))
	s.mutex.Unlock()
	s.carrier.meeting.Unlock()
	for _, e := range ends {
		e.cable.breakUp()
	}
	s.resume() // whoever waits for it learns the truth
}

func (s *station) hang() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.hung.Swap(true) {
		s.thawed = make(chan struct{})
	}
}

func (s *station) resume() {
	s.mutex.Lock()
	if s.hung.Swap(false) {
		close(s.thawed)
	}
	ends := slices.Collect(maps.Values(s.ends))
	s.mutex.Unlock()
	for _, e := range ends {
		e.rouse()
		e.other().rouse()
	}
}

// awake waits until the station does not hang.
func (s *station) awake(ctx context.Context) error {
	for s.hung.Load() {
		s.mutex.Lock()
		thawed := s.thawed
		s.mutex.Unlock()
		select {
		case <-thawed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// door is where the station takes connections, nil if nowhere.
func (s *station) door() (at multiaddr.Multiaddr, gone bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.gone {
		return nil, true
	}
	return s.address, false
}

func (s *station) to(id peer.ID) *end {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.ends[id]
}

// dial connects to a peer at one of some addresses, or at those that are known. When
// both dial at once, the connection that comes second is not made.
func (s *station) dial(ctx context.Context, id peer.ID, addresses []multiaddr.Multiaddr) (*end, error) {
	if e := s.to(id); e != nil {
		return e, nil
	}
	if id == s.id {
		return nil, fmt.Errorf("dial %s: this is it: %w", id, errUnreachable)
	}
	if len(addresses) == 0 {
		addresses = s.Peerstore().Addrs(id)
	}
	to, err := s.carrier.at(id, addresses)
	if err != nil {
		return nil, err
	}
	l, err := s.meet(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", id, err)
	}
	if s.carrier.connect(l) {
		go func() {
			defer to.served.Done()
			to.tell(l.far)
		}()
		s.tell(l.near)
	}
	if e := s.to(id); e != nil { // perhaps the other end was quicker
		return e, nil
	}
	return nil, fmt.Errorf("dial %s: %w", id, errUnreachable)
}

// meet has two stations agree to connect. What a real handshake proves, that each end
// has the key of its peer id, holds by itself in one process; the memberships are shown
// and judged as on a real network.
func (s *station) meet(ctx context.Context, to *station) (*cable, error) {
	if !s.endpoint.Gate().InterceptPeerDial(to.id) {
		return nil, errGate
	}
	if err := errors.Join(s.awake(ctx), to.awake(ctx), ctx.Err()); err != nil {
		return nil, err
	}
	if _, gone := s.door(); gone {
		return nil, errUnreachable
	}
	at, _ := to.door()
	if at == nil {
		return nil, errRefused
	}
	l := newCable(s, to, at)
	if !to.endpoint.Gate().InterceptAccept(l.far) ||
		!to.endpoint.Gate().InterceptSecured(network.DirInbound, s.id, l.far) ||
		!s.endpoint.Gate().InterceptSecured(network.DirOutbound, to.id, l.near) {
		return nil, errGate
	}
	if err := s.endpoint.Admit(to.id, to.endpoint.Key.Libp2p().GetPublic(), to.endpoint.Certificate()); err != nil {
		return nil, err
	}
	if err := to.endpoint.Admit(s.id, s.endpoint.Key.Libp2p().GetPublic(), s.endpoint.Certificate()); err != nil {
		return nil, fmt.Errorf("the other end did not accept this pilot's membership: %w", err)
	}
	return l, nil
}

// connect makes a cable the connection of both stations. They must be there, and have
// none yet. The far one is served until it was told.
func (c *Carrier) connect(l *cable) bool {
	c.meeting.Lock()
	defer c.meeting.Unlock()
	near, far := l.near.station, l.far.station
	if near.to(far.id) != nil || near.gone || far.gone {
		return false
	}
	far.served.Add(1)
	near.keep(l.near)
	far.keep(l.far)
	return true
}

// part ends what connect has made.
func (c *Carrier) part(l *cable) {
	c.meeting.Lock()
	defer c.meeting.Unlock()
	l.near.station.drop(l.near)
	l.far.station.drop(l.far)
}

func (s *station) keep(e *end) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ends[e.RemotePeer()] = e
}

func (s *station) drop(e *end) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.ends[e.RemotePeer()] == e {
		delete(s.ends, e.RemotePeer())
	}
}

// tell has everybody hear of a new connection, and of what its other end serves.
func (s *station) tell(e *end) {
	for _, notifiee := range s.listeners() {
		notifiee.Connected(wires{s}, e)
	}
	id := e.RemotePeer()
	_ = s.connectivity.Emit(busevent.EvtPeerConnectednessChanged{Peer: id, Connectedness: network.Connected}) // closed meanwhile
	protocols, err := s.Peerstore().GetProtocols(id)
	if err != nil {
		return // it serves nothing
	}
	_ = s.identified.Emit(busevent.EvtPeerIdentificationCompleted{
		Peer: id, Conn: e, Protocols: protocols, ListenAddrs: s.Peerstore().Addrs(id), AgentVersion: "pilotage",
	})
}

// lost has everybody hear of the end of a connection.
func (s *station) lost(e *end) {
	for _, notifiee := range s.listeners() {
		notifiee.Disconnected(wires{s}, e)
	}
	_ = s.connectivity.Emit(busevent.EvtPeerConnectednessChanged{Peer: e.RemotePeer(), Connectedness: network.NotConnected}) // closed meanwhile
}

func (s *station) listeners() []network.Notifiee {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.notified)
}

// ID satisfies host.Host, like all exported methods.
func (s *station) ID() peer.ID { return s.id }

// Peerstore is the one that all hosts of the carrier share.
func (s *station) Peerstore() peerstore.Peerstore { return s.carrier.book }

// Addrs lists the invented address, once the host listens.
func (s *station) Addrs() []multiaddr.Multiaddr { return s.Network().ListenAddresses() }

// Network is a small stand-in for the swarm.
func (s *station) Network() network.Network { return wires{s} }

// Mux knows the names of the protocols; nothing is negotiated with it.
func (s *station) Mux() protocol.Switch { return s.mux }

// ConnManager trims nothing: a connection costs some hundred bytes.
func (s *station) ConnManager() connmgr.ConnManager { return connmgr.NullConnMgr{} }

// EventBus tells of connections and of those that have been identified.
func (s *station) EventBus() busevent.Bus { return s.bus }

// Connect dials unless there is a connection.
func (s *station) Connect(ctx context.Context, to peer.AddrInfo) error {
	_, err := s.dial(ctx, to.ID, to.Addrs)
	return err
}

// SetStreamHandler has a protocol served.
func (s *station) SetStreamHandler(id protocol.ID, handler network.StreamHandler) {
	s.mutex.Lock()
	s.handlers[id] = handler
	s.mutex.Unlock()
	s.mux.AddHandler(id, nil)
	_ = s.Peerstore().AddProtocols(s.id, id) // fails for more protocols than a host has
}

// SetStreamHandlerMatch serves the one protocol that is named.
func (s *station) SetStreamHandlerMatch(id protocol.ID, _ func(protocol.ID) bool, handler network.StreamHandler) {
	s.SetStreamHandler(id, handler)
}

// RemoveStreamHandler has a protocol served no more.
func (s *station) RemoveStreamHandler(id protocol.ID) {
	s.mutex.Lock()
	delete(s.handlers, id)
	s.mutex.Unlock()
	s.mux.RemoveHandler(id)
	_ = s.Peerstore().RemoveProtocols(s.id, id) // as above
}

// NewStream opens a stream for the first of the protocols that the other host
// serves.
func (s *station) NewStream(ctx context.Context, id peer.ID, protocols ...protocol.ID) (network.Stream, error) {
	connection := s.to(id)
	if connection == nil {
		if forbidden, reason := network.GetNoDial(ctx); forbidden {
			return nil, fmt.Errorf("open a stream to %s, %s: %w", id, reason, network.ErrNoConn)
		}
		var err error
		if connection, err = s.dial(ctx, id, nil); err != nil {
			return nil, err
		}
	}
	return connection.open(protocols)
}

// handler chooses what serves one of some protocols.
func (s *station) handler(protocols []protocol.ID) (protocol.ID, network.StreamHandler, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.gone {
		return "", nil, network.ErrReset
	}
	for _, id := range protocols {
		if handler := s.handlers[id]; handler != nil {
			s.served.Add(1)
			return id, handler, nil
		}
	}
	return "", nil, fmt.Errorf("%s serves none of %v", s.id, protocols)
}

// Close ends all connections and waits for the handlers.
func (s *station) Close() error {
	s.shut()
	s.served.Wait()
	return errors.Join(s.identified.Close(), s.connectivity.Close())
}
