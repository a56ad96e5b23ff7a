package live

import (
	"context"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// SetLatency lets every byte take so long, and up to as long again, drawn from
// the seed; bytes of one stream keep their order. It counts for what is written
// from now on.
func (c *Carrier) SetLatency(latency time.Duration) { c.latency.Store(int64(latency)) }

// delay draws the time on the way of one write.
func (c *Carrier) delay() time.Duration {
	latency := time.Duration(c.latency.Load())
	if latency <= 0 {
		return 0
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return latency + time.Duration(c.random.Int64N(int64(latency)))
}

// pause is the time that a handshake takes: there and back.
func (c *Carrier) pause(ctx context.Context) error {
	delay := c.delay() + c.delay()
	if delay == 0 {
		return nil
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill cuts a node off for ever, as the end of its process does: its peers
// notice at once, and nobody reaches it again. It does not close the node, which
// goes on and sees its connections break one after the other: none that is left
// takes a word of that.
func (c *Carrier) Kill(id task.PeerID) {
	if s := c.station(id); s != nil {
		s.hang()
		s.shut()
	}
}

// Hang has a node take bytes and answer nothing: what it is sent, and what it
// sends, waits for Resume. Its own code goes on, as that of a process that was
// stopped does not: whoever wants that, too, holds a hook of the node.
func (c *Carrier) Hang(id task.PeerID) {
	if s := c.station(id); s != nil {
		s.hang()
	}
}

// Resume ends Hang: what has waited arrives.
func (c *Carrier) Resume(id task.PeerID) {
	if s := c.station(id); s != nil {
		s.resume()
	}
}

// Partition cuts the connections between nodes on different sides and lets no
// new ones be made; those that it does not name are on side 0. Partition(nil)
// heals.
func (c *Carrier) Partition(side map[task.PeerID]int) {
	c.mutex.Lock()
	stations := make([]*station, 0, len(c.stations))
	for _, s := range c.stations {
		stations = append(stations, s)
	}
	c.mutex.Unlock()
	for _, s := range stations {
		s.mutex.Lock()
		s.side = side[task.PeerID(s.id.String())]
		s.mutex.Unlock()
	}
	for _, s := range stations {
		for _, l := range s.open() {
			near, _, _ := l.near.station.state()
			far, _, _ := l.far.station.state()
			if near != far {
				l.breakUp()
			}
		}
	}
}
