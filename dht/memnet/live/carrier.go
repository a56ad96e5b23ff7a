package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/multiformats/go-multiaddr"

	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/task"
)

// Kind is how much of libp2p a carrier's nodes run on.
type Kind uint8

// The kinds of carriers.
const (
	// Memory is a transport below a full libp2p host with its swarm, its
	// identify service and its connection manager: for up to about 1,500
	// nodes in one process.
	Memory Kind = iota + 1
	// Light is a host without a swarm: for several thousand nodes.
	Light
)

func (k Kind) String() string {
	switch k {
	case Memory:
		return "memory"
	case Light:
		return "light"
	default:
		return fmt.Sprintf("carrier %d", uint8(k))
	}
}

// Carrier carries the bytes of many node.Nodes in one process; it satisfies
// node.Carrier. Nothing leaves the process and nothing is encrypted. It is safe
// for concurrent use; its nodes are to be closed before Close.
type Carrier struct {
	kind    Kind
	book    *memberBook
	latency atomic.Int64
	tap     atomic.Pointer[func(Message)]

	meeting   sync.Mutex // held while a light connection is made
	mutex     sync.Mutex
	random    *rand.Rand
	count     uint32
	stations  map[peer.ID]*station
	byAddress map[string]*station
	byIP      map[netip.Addr]*station
}

var _ node.Carrier = (*Carrier)(nil)

// NewCarrier makes a carrier without latency. The seed draws the jitter.
func NewCarrier(kind Kind, seed uint64) (*Carrier, error) {
	store, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, fmt.Errorf("make the members' common peerstore: %w", err)
	}
	if kind != Memory && kind != Light {
		return nil, errors.Join(fmt.Errorf("%s: there is Memory and Light", kind), store.Close())
	}
	return &Carrier{
		kind: kind, book: &memberBook{Peerstore: store, certified: store},
		random:   rand.New(rand.NewPCG(seed, seed)),
		stations: make(map[peer.ID]*station), byAddress: make(map[string]*station), byIP: make(map[netip.Addr]*station),
	}, nil
}

// Close frees what the nodes have shared.
func (c *Carrier) Close() error { return c.book.Peerstore.Close() }

// Host satisfies node.Carrier.
func (c *Carrier) Host(e node.Endpoint) (host.Host, error) {
	id, err := peer.IDFromPublicKey(e.Key.Libp2p().GetPublic())
	if err != nil {
		return nil, fmt.Errorf("a host in memory: %w", err)
	}
	s := &station{carrier: c, id: id, endpoint: e, cables: make(map[*cable]struct{})}
	c.mutex.Lock()
	c.count++
	s.ip = invented(c.count)
	c.stations[id], c.byIP[s.ip] = s, s
	c.mutex.Unlock()
	if c.kind == Light {
		return newLightHost(s)
	}
	return newMemoryHost(s)
}

// Routing satisfies node.Carrier.
func (c *Carrier) Routing() []kaddht.Option {
	if c.kind == Light {
		return []kaddht.Option{kaddht.WithCustomMessageSender(newSender)}
	}
	return nil
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
	if _, entry, _ := s.state(); entry.address != nil && entry.address.Equal(addressOf(s.ip, uint16(port))) {
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
	c.book.list(s.id, address)
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

func (s *station) key() crypto.PubKey { return s.endpoint.Key.Libp2p().GetPublic() }
