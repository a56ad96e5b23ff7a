package live

import (
	"sync"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"
)

// cable is an open connection between two stations.
type cable struct {
	near, far *end // the dialler's and the other one's
	once      sync.Once
}

// end is one end of a cable.
type end struct {
	cable         *cable
	station       *station
	local, remote multiaddr.Multiaddr

	mutex   sync.Mutex
	gone    func() // called once when the cable has broken
	streams map[*stream]struct{}
	closed  bool
	offered []*stream // opened by the other end, for the transport to accept
	arrived sync.Cond
}

// newCable goes from a station to where another one listens.
func newCable(from, to *station, at multiaddr.Multiaddr) *cable {
	l := &cable{}
	l.near = newEnd(l, from, from.origin(), at)
	l.far = newEnd(l, to, at, from.origin())
	return l
}

func newEnd(l *cable, s *station, local, remote multiaddr.Multiaddr) *end {
	e := &end{cable: l, station: s, local: local, remote: remote, gone: func() {}, streams: make(map[*stream]struct{})}
	e.arrived.L = &e.mutex
	return e
}

// open makes the cable one of both stations; it fails when one of them has been
// closed meanwhile.
func (l *cable) open() bool {
	if l.near.station.join(l) && l.far.station.join(l) {
		return true
	}
	l.breakUp()
	return false
}

// breakUp ends the cable for both ends at once.
func (l *cable) breakUp() {
	l.once.Do(func() {
		l.near.station.part(l)
		l.far.station.part(l)
		near, far := l.near.tear(), l.far.tear()
		near()
		far()
	})
}

// tear ends this end of the cable and returns what is to be called then.
func (e *end) tear() (gone func()) {
	e.mutex.Lock()
	e.closed = true
	streams := e.streams
	e.streams, e.offered = nil, nil
	e.arrived.Broadcast()
	gone = e.gone
	e.mutex.Unlock()
	for s := range streams {
		s.in.tear()
		s.out.tear()
	}
	return gone
}

// whenGone sets what is called when the cable has broken: now, if it has.
func (e *end) whenGone(gone func()) {
	e.mutex.Lock()
	e.gone = gone
	closed := e.closed
	e.mutex.Unlock()
	if closed {
		gone()
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
	if e.closed {
		return false
	}
	e.streams[s] = struct{}{}
	return true
}

func (e *end) drop(s *stream) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.streams, s)
}

func (e *end) isClosed() bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.closed
}

// offer gives the transport at this end a stream to accept.
func (e *end) offer(s *stream) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.offered = append(e.offered, s)
	e.arrived.Broadcast()
}

// accept waits for the next stream that the other end opens.
func (e *end) accept() (*stream, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for len(e.offered) == 0 {
		if e.closed {
			return nil, network.ErrReset
		}
		e.arrived.Wait()
	}
	s := e.offered[0]
	if e.offered = e.offered[1:]; len(e.offered) == 0 {
		e.offered = nil
	}
	return s, nil
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
