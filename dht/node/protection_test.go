package node

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/network"
)

// A connection that is in use is not trimmed at either end. One that nobody uses may end:
// nobody dials it again for that, and it is made anew for the next message. The one to
// the master is dialled at once.
func TestConnectionsThatNobodyUsesMayEnd(t *testing.T) {
	pilots := joinMany(t, newSite(t, "siteA"), 4)
	master, a, b := pilots[0], pilots[1], pilots[2]
	if !a.protects(master) || !master.protects(a) {
		t.Fatal("the connection between master and worker may be trimmed")
	}
	a.Send(b.self.Peer, []byte("in use"))
	b.await(t, "a message", func() bool { return len(b.inbound[a.self.Peer]) == 1 })
	if !a.protects(b) || !b.protects(a) {
		t.Error("a connection in use may be trimmed")
	}

	c := pilots[3]
	eventually(t, "a connection that nobody uses", func() bool {
		return connected(c.host, b.host.ID()) && !c.protects(b) && !b.protects(c)
	})
	for _, connection := range c.host.Network().ConnsToPeer(b.host.ID()) {
		if err := connection.CloseWithError(network.ConnGarbageCollected); err != nil {
			t.Fatal(err)
		}
		c.disconnected(c.host.Network(), connection)
		dialling := make(chan bool)
		c.loop.Post(func() { dialling <- c.dialling[b.self.Peer] })
		if <-dialling {
			t.Error("a connection that nobody uses is dialled again")
		}
	}
	c.Send(b.self.Peer, []byte("anew"))
	b.await(t, "a message over a new connection", func() bool { return len(b.inbound[c.self.Peer]) == 1 })

	if err := c.host.Network().ClosePeer(master.host.ID()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the connection to the master", func() bool { return connected(c.host, master.host.ID()) && c.protects(master) })
}

// protects tells whether the overlay keeps the connection to another pilot.
func (p *pilot) protects(other *pilot) bool {
	manager, id := p.host.ConnManager(), other.host.ID()
	for _, tag := range []string{masterTag, workerTag, laneTag, inboundTag + roundChannel.String()} {
		if manager.IsProtected(id, tag) {
			return true
		}
	}
	return false
}
