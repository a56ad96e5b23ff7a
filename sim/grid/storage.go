package grid

import "github.com/pilotage-grid/pilotage/sim"

// storage is a site's storage element. It serves all readers at once, or one
// after the other.
type storage struct {
	site  *site
	link  sim.LinkID
	queue []*read
	busy  bool
	bytes float64
	reads int
}

// read is a transfer from or to a storage element, under way or waiting.
type read struct {
	bytes float64
	route []sim.LinkID
	done  func()
	flow  *sim.Flow
}

// transfer moves bytes from or to the element over further links.
func (s *storage) transfer(bytes float64, route []sim.LinkID, done func()) *read {
	r := &read{bytes: bytes, route: append([]sim.LinkID{s.link}, route...), done: done}
	s.reads++
	s.bytes += bytes
	s.queue = append(s.queue, r)
	s.next()
	return r
}

func (s *storage) next() {
	for len(s.queue) > 0 && !(s.site.OneAtATime && s.busy) {
		r := s.queue[0]
		s.queue = s.queue[1:]
		if r.done == nil { // stopped while it waited
			continue
		}
		s.busy = true
		r.flow = s.site.network.Send(r.bytes, r.route, func() {
			s.busy = false
			r.done()
			s.next()
		})
	}
}

// stop ends a transfer early.
func (s *storage) stop(r *read) {
	r.done = nil
	if r.flow != nil {
		s.site.network.Stop(r.flow)
		s.busy = false
		s.next()
	}
}
