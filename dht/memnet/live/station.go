package live

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/pilotage-grid/pilotage/dht/node"
)

// Reasons why a connection is not made.
var (
	errRefused     = errors.New("connection refused")
	errUnreachable = errors.New("no route to host")
	errGate        = errors.New("the other end wants no connection")
)

// station is one node's place on a carrier.
type station struct {
	carrier  *Carrier
	id       peer.ID
	endpoint node.Endpoint
	ip       netip.Addr
	hung     atomic.Bool
	traffic  counters

	mutex  sync.Mutex
	cables map[*cable]struct{} // nil: it was closed or killed
	side   int                 // of a partition
	thawed chan struct{}       // closed when it hangs no more
	door   door
	host   *lightHost // of a light carrier
}

// door is where a station takes connections that others open; the zero value
// is closed.
type door struct {
	address multiaddr.Multiaddr
	welcome func(*end) bool
}

func (s *station) join(l *cable) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.cables == nil {
		return false
	}
	s.cables[l] = struct{}{}
	return true
}

func (s *station) part(l *cable) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.cables, l)
}

// open lists the cables.
func (s *station) open() []*cable {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	cables := make([]*cable, 0, len(s.cables))
	for l := range s.cables {
		cables = append(cables, l)
	}
	return cables
}

// origin is the address that others see a connection of this station's from.
func (s *station) origin() multiaddr.Multiaddr { return addressOf(s.ip, ephemeralPort) }

// listen takes an address of its own instead of the one wished for, whose port
// it keeps.
func (s *station) listen(wish multiaddr.Multiaddr, welcome func(*end) bool) (multiaddr.Multiaddr, error) {
	port, err := portOf(wish)
	if err != nil {
		return nil, err
	}
	address := addressOf(s.ip, port)
	s.mutex.Lock()
	s.door = door{address: address, welcome: welcome}
	s.mutex.Unlock()
	s.carrier.announce(s, address)
	return address, nil
}

// shut ends everything that the station has open; nobody reaches it any more.
func (s *station) shut() {
	s.mutex.Lock()
	cables := s.cables
	s.cables, s.door = nil, door{}
	s.mutex.Unlock()
	for l := range cables {
		l.breakUp()
	}
	s.resume() // whoever waits for it learns the truth
}

// light is the host, if it is a light one and not closed.
func (s *station) light() (*lightHost, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.host, s.host != nil && s.cables != nil
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
	s.mutex.Unlock()
	for _, l := range s.open() {
		l.near.rouse()
		l.far.rouse()
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

// state is what a dialler finds out about a station.
func (s *station) state() (side int, entry door, alive bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.side, s.door, s.cables != nil
}

// dial connects this station to another. What a real handshake proves, that
// each end has the key of its peer id, holds by itself in one process; the
// memberships are shown and judged as on a real network.
func (s *station) dial(ctx context.Context, to *station) (*cable, func(*end) bool, error) {
	if err := errors.Join(s.awake(ctx), to.awake(ctx), s.carrier.pause(ctx)); err != nil {
		return nil, nil, fmt.Errorf("dial %s: %w", to.id, err)
	}
	mySide, _, alive := s.state()
	side, entry, there := to.state()
	switch {
	case !alive || mySide != side:
		return nil, nil, fmt.Errorf("dial %s: %w", to.id, errUnreachable)
	case !there || entry.welcome == nil:
		return nil, nil, fmt.Errorf("dial %s: %w", to.id, errRefused)
	}
	l := newCable(s, to, entry.address)
	if !to.endpoint.Gate().InterceptAccept(l.far) ||
		!to.endpoint.Gate().InterceptSecured(network.DirInbound, s.id, l.far) ||
		!s.endpoint.Gate().InterceptSecured(network.DirOutbound, to.id, l.near) {
		return nil, nil, fmt.Errorf("dial %s: %w", to.id, errGate)
	}
	if err := s.endpoint.Admit(to.id, to.key(), to.endpoint.Certificate()); err != nil {
		return nil, nil, err
	}
	if err := to.endpoint.Admit(s.id, s.key(), s.endpoint.Certificate()); err != nil {
		return nil, nil, fmt.Errorf("the other end did not accept this pilot's membership: %w", err)
	}
	return l, entry.welcome, nil
}
