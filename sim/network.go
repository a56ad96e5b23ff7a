package sim

import (
	"slices"
	"time"
)

// Network moves bytes over links that flows share: every flow gets its max-min
// fair share of each link on its way (progressive filling), and shares change
// whenever a flow begins or ends.
type Network struct {
	timeline *Timeline
	links    []link
	flows    []*Flow
	updated  time.Duration
	next     *Event
}

type link struct {
	capacity float64 // bytes a second
	left     float64 // while shares are worked out
	flows    int     // without a share yet
	moved    float64 // bytes, for the report
}

// LinkID names a link of a network.
type LinkID int

// Flow is a transfer under way.
type Flow struct {
	route []LinkID
	left  float64 // bytes
	rate  float64 // bytes a second
	done  func()
	fixed bool // while shares are worked out
}

// NewNetwork makes a network without links.
func NewNetwork(timeline *Timeline) *Network { return &Network{timeline: timeline} }

// Link adds a link of so many bytes a second.
func (n *Network) Link(bytesPerSecond float64) LinkID {
	n.links = append(n.links, link{capacity: bytesPerSecond})
	return LinkID(len(n.links) - 1)
}

// Resize changes what a link can carry from now on, in bytes a second.
func (n *Network) Resize(id LinkID, bytesPerSecond float64) {
	if n.links[id].capacity == bytesPerSecond {
		return
	}
	n.advance()
	n.links[id].capacity = bytesPerSecond
	n.share()
}

// Moved is how many bytes have gone over a link.
func (n *Network) Moved(id LinkID) float64 {
	n.advance()
	return n.links[id].moved
}

// Send begins a transfer over links and calls done at its end. A transfer over
// no link, or of nothing, ends at once, but not before Send returns.
func (n *Network) Send(bytes float64, route []LinkID, done func()) *Flow {
	f := &Flow{route: route, left: bytes, done: done}
	if bytes <= 0 || len(route) == 0 {
		f.left = 0
		n.timeline.After(0, func() {
			if f.done != nil {
				f.done()
			}
		})
		return f
	}
	n.advance()
	n.flows = append(n.flows, f)
	n.share()
	return f
}

// Stop ends a transfer early and returns how many bytes were left.
func (n *Network) Stop(f *Flow) (left float64) {
	f.done = nil
	at := slices.Index(n.flows, f)
	if at < 0 {
		return 0
	}
	n.advance()
	n.flows = slices.Delete(n.flows, at, at+1)
	n.share()
	return f.left
}

// Flows is the number of transfers under way.
func (n *Network) Flows() int { return len(n.flows) }

// advance books what has been moved since the last change.
func (n *Network) advance() {
	seconds := (n.timeline.Now() - n.updated).Seconds()
	n.updated = n.timeline.Now()
	if seconds <= 0 {
		return
	}
	for _, f := range n.flows {
		moved := min(f.left, f.rate*seconds)
		f.left -= moved
		for _, id := range f.route {
			n.links[id].moved += moved
		}
	}
}

// share works out every flow's rate: the link that leaves the least to each of
// its flows fixes their rate, and so on with what is left.
func (n *Network) share() {
	for i := range n.links {
		n.links[i].left, n.links[i].flows = n.links[i].capacity, 0
	}
	for _, f := range n.flows {
		f.fixed = false
		for _, id := range f.route {
			n.links[id].flows++
		}
	}
	for range n.flows {
		tightest, least := -1, 0.0
		for i := range n.links {
			l := &n.links[i]
			if l.flows == 0 {
				continue
			}
			if part := l.left / float64(l.flows); tightest < 0 || part < least {
				tightest, least = i, part
			}
		}
		if tightest < 0 {
			break
		}
		for _, f := range n.flows {
			if f.fixed || !slices.Contains(f.route, LinkID(tightest)) {
				continue
			}
			f.fixed, f.rate = true, max(least, 0)
			for _, id := range f.route {
				n.links[id].left -= f.rate
				n.links[id].flows--
			}
		}
	}
	n.plan()
}

// plan waits for the first flow to end.
func (n *Network) plan() {
	n.timeline.Cancel(n.next)
	n.next = nil
	first := -1.0
	for _, f := range n.flows {
		if f.rate <= 0 {
			continue
		}
		if seconds := f.left / f.rate; first < 0 || seconds < first {
			first = seconds
		}
	}
	if first < 0 {
		return
	}
	// Rounded up, so that at the event nothing is left but a rounding error.
	n.next = n.timeline.After(time.Duration(first*float64(time.Second))+1, n.arrive)
}

func (n *Network) arrive() {
	n.advance()
	var over []*Flow
	n.flows = slices.DeleteFunc(n.flows, func(f *Flow) bool {
		if f.left > f.rate*2e-9 {
			return false
		}
		over = append(over, f)
		return true
	})
	n.share()
	for _, f := range over {
		f.left = 0
		if f.done != nil {
			f.done()
		}
	}
}
