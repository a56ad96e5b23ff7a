package live

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/multiformats/go-multiaddr"

	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/task"
)

// Carrier carries the bytes of many node.Nodes in one process; it satisfies
// node.Carrier. Nothing leaves the process and nothing is encrypted. It is safe
// for concurrent use; its nodes are to be closed before Close.
type Carrier struct {
	book memberBook

	meeting   sync.Mutex // held while a connection is made or ends
	mutex     sync.Mutex
	stations  map[peer.ID]*station
	byAddress map[string]*station
	byIP      map[netip.Addr]*station
}

var _ node.Carrier = (*Carrier)(nil)

// NewCarrier makes a carrier without nodes.
func NewCarrier() (*Carrier, error) {
	store, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, fmt.Errorf("make the members' common peerstore: %w", err)
	}
	return &Carrier{
		book: memberBook{store}, stations: make(map[peer.ID]*station),
		byAddress: make(map[string]*station), byIP: make(map[netip.Addr]*station),
	}, nil
}

// Close frees what the nodes have shared.
func (c *Carrier) Close() error { return c.book.Close() }

// Host satisfies node.Carrier.
func (c *Carrier) Host(e node.Endpoint) (host.Host, error) {
	id, err := peer.IDFromPublicKey(e.Key.Libp2p().GetPublic())
	if err != nil {
		return nil, fmt.Errorf("a host in memory: %w", err)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	s, err := newStation(c, id, invented(len(c.byIP)+1))
	if err != nil {
		return nil, err
	}
	s.endpoint = e
	c.stations[id], c.byIP[s.ip] = s, s
	return s, nil
}

// Routing satisfies node.Carrier.
func (c *Carrier) Routing() []kaddht.Option {
	return []kaddht.Option{kaddht.WithCustomMessageSender(newSender)}
}

// Reach satisfies node.Carrier: an invented address stands for its node's own,
// at which the ports of the data server are real ones.
func (c *Carrier) Reach(ctx context.Context, address net.IP, port uint32) error {
	ip, ok := netip.AddrFromSlice(address)
	if !ok {
		return fmt.Errorf("reach %v: no address", address)
	}
	c.mutex.Lock()
	s := c.byIP[ip.Unmap()]
	c.mutex.Unlock()
	if s == nil {
		return fmt.Errorf("reach %s: %w", ip, errUnreachable)
	}
	if at, _ := s.door(); at != nil && at.Equal(addressOf(s.ip, uint16(port))) {
		return nil
	}
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(s.endpoint.Advertise, uint16(port)).String())
	if err != nil {
		return err
	}
	return connection.Close()
}

// announce notes where a station listens, for everybody and for good.
func (c *Carrier) announce(s *station, address multiaddr.Multiaddr) {
	c.mutex.Lock()
	c.byAddress[address.String()] = s
	c.mutex.Unlock()
	c.book.Peerstore.AddAddrs(s.id, []multiaddr.Multiaddr{address}, peerstore.PermanentAddrTTL)
}

// at finds the station that listens on one of the addresses under an id.
func (c *Carrier) at(id peer.ID, addresses []multiaddr.Multiaddr) (*station, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, address := range addresses {
		if s := c.byAddress[address.String()]; s != nil && s.id == id {
			return s, nil
		}
	}
	return nil, fmt.Errorf("dial %s at %v: %w", id, addresses, errUnreachable)
}

func (c *Carrier) station(id task.PeerID) *station {
	decoded, err := peer.Decode(string(id))
	if err != nil {
		return nil
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.stations[decoded]
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

// memberBook is the peerstore that all nodes of the process share: they learn
// the same of the same members. Where a station listens is known from the first,
// so that what nodes tell one another of its addresses costs nothing.
type memberBook struct{ peerstore.Peerstore }

// AddAddrs satisfies peerstore.AddrBook.
func (memberBook) AddAddrs(peer.ID, []multiaddr.Multiaddr, time.Duration) {}
