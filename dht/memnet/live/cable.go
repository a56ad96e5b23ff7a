package live

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multiaddr"
)

// cable is a connection between two stations.
type cable struct {
	near, far *end // the dialler's and the other one's
	once      sync.Once
}

// end is one end of a cable: a network.Conn.
type end struct {
	cable         *cable
	station       *station
	local, remote multiaddr.Multiaddr

	mutex   sync.Mutex
	streams map[*stream]struct{}
	closed  bool
}

var _ network.Conn = (*end)(nil)

// newCable goes from a station to where another one listens.
func newCable(from, to *station, at multiaddr.Multiaddr) *cable {
	l, origin := &cable{}, addressOf(from.ip, ephemeralPort)
	l.near = &end{cable: l, station: from, local: origin, remote: at, streams: make(map[*stream]struct{})}
	l.far = &end{cable: l, station: to, local: at, remote: origin, streams: make(map[*stream]struct{})}
	return l
}

// breakUp ends the cable for both ends at once.
func (l *cable) breakUp() {
	l.once.Do(func() {
		l.near.station.carrier.part(l)
		l.near.tear()
		l.far.tear()
		l.near.station.lost(l.near)
		l.far.station.lost(l.far)
	})
}

func (e *end) tear() {
	e.mutex.Lock()
	e.closed = true
	streams := e.streams
	e.streams = nil
	e.mutex.Unlock()
	for s := range streams {
		s.in.tear()
		s.out.tear()
	}
}

func (e *end) other() *end {
	if e.cable.near == e {
		return e.cable.far
	}
	return e.cable.near
}

func (e *end) keep(s *stream) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if !e.closed {
		e.streams[s] = struct{}{}
	}
	return !e.closed
}

func (e *end) drop(s *stream) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.streams, s)
}

// rouse has every stream look again at who hangs.
func (e *end) rouse() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for s := range e.streams {
		s.in.rouse()
		s.out.rouse()
	}
}

// open starts a stream, and what serves it at the other end.
func (e *end) open(protocols []protocol.ID) (network.Stream, error) {
	server := e.other().station
	id, handler, err := server.handler(protocols)
	if err != nil {
		return nil, fmt.Errorf("open a stream to %s: %w", e.RemotePeer(), err)
	}
	near, far, err := newStreams(e, id)
	if err != nil {
		server.served.Done()
		return nil, fmt.Errorf("open a stream to %s: %w", e.RemotePeer(), err)
	}
	go func() {
		defer server.served.Done()
		handler(far)
	}()
	return near, nil
}

// newStreams makes the two ends of a stream and notes them in their connection's.
func newStreams(opener *end, id protocol.ID) (near, far *stream, err error) {
	other, opened := opener.other(), time.Now()
	there, back := newFlow(opener.station, other.station), newFlow(other.station, opener.station)
	near = &stream{end: opener, in: back, out: there, protocol: id, kind: kindOf(id), opened: opened, direction: network.DirOutbound}
	far = &stream{end: other, in: there, out: back, protocol: id, kind: kindOf(id), opened: opened, direction: network.DirInbound}
	if !opener.keep(near) {
		return nil, nil, network.ErrReset
	}
	if !other.keep(far) {
		opener.drop(near)
		return nil, nil, network.ErrReset
	}
	return near, far, nil
}

// NewStream satisfies network.Conn, like all methods below. A stream without a
// protocol is served by nothing.
func (e *end) NewStream(context.Context) (network.Stream, error) { return e.open(nil) }

// GetStreams lists none: nothing asks for them.
func (e *end) GetStreams() []network.Stream { return nil }

// ID names the connection within the process.
func (e *end) ID() string { return fmt.Sprintf("%p", e) }

// Close ends the connection for both ends.
func (e *end) Close() error {
	e.cable.breakUp()
	return nil
}

// CloseWithError is Close.
func (e *end) CloseWithError(network.ConnErrorCode) error { return e.Close() }

// IsClosed tells whether it has ended.
func (e *end) IsClosed() bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.closed
}

// As finds nothing below.
func (e *end) As(any) bool { return false }

// Scope bounds nothing.
func (e *end) Scope() network.ConnScope { return &network.NullScope{} }

// Stat tells which end has dialled.
func (e *end) Stat() network.ConnStats {
	direction := network.DirInbound
	if e.cable.near == e {
		direction = network.DirOutbound
	}
	return network.ConnStats{Stats: network.Stats{Direction: direction}}
}

// LocalPeer is the id of this end's host.
func (e *end) LocalPeer() peer.ID { return e.station.id }

// RemotePeer is the id of the other end's.
func (e *end) RemotePeer() peer.ID { return e.other().station.id }

// RemotePublicKey is that of the other end's host.
func (e *end) RemotePublicKey() crypto.PubKey {
	return e.other().station.endpoint.Key.Libp2p().GetPublic()
}

// ConnState names the transport.
func (e *end) ConnState() network.ConnectionState {
	return network.ConnectionState{Transport: "memory"}
}

// LocalMultiaddr is where this end's host is.
func (e *end) LocalMultiaddr() multiaddr.Multiaddr { return e.local }

// RemoteMultiaddr is where the other end's is.
func (e *end) RemoteMultiaddr() multiaddr.Multiaddr { return e.remote }
