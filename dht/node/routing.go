package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// Kademlia's numbers: on one site k=8, alpha=3, beta=3 route as accurately as
// the defaults of the open Internet at a half to a quarter of the cost.
const (
	bucketSize  = 8
	concurrency = 3
	resiliency  = 3
	// lookEvery is how often kad-dht looks through the whole key space for
	// itself: some ten lookups, each with connections to a dozen members. The
	// roster says who is there much earlier and for nothing (fillRoutes), so
	// this is for a site that has had no master for long.
	lookEvery = 30 * time.Minute
	// lookTime bounds the lookup of a newcomer's neighbours.
	lookTime = 30 * time.Second
)

// newRouting starts kad-dht as a router only: values and provider records are
// off, locations are the overlay's own.
func newRouting(h host.Host, c Config, contacts func() []peer.AddrInfo, found func(peer.ID)) (*kaddht.IpfsDHT, error) {
	prefix := protocolPrefix(c.Site)
	routing, err := kaddht.New(h, append(c.Carrier.Routing(),
		kaddht.ProtocolPrefix(protocol.ID(prefix)),
		kaddht.V1ProtocolOverride(protocol.ID(prefix+"/kad")),
		kaddht.Mode(kaddht.ModeServer), // by itself it stays a client on a LAN
		kaddht.BucketSize(bucketSize), kaddht.Concurrency(concurrency), kaddht.Resiliency(resiliency),
		kaddht.DisableValues(), kaddht.DisableProviders(),
		kaddht.RoutingTableRefreshPeriod(lookEvery), kaddht.DisableAutoRefresh(), // the loop has it look
		kaddht.RoutingTableRefreshQueryTimeout(dialTime),
		kaddht.BootstrapPeersFunc(contacts),
	)...)
	if err != nil {
		return nil, fmt.Errorf("start kad-dht: %w", err)
	}
	// No connection is made before Join, so nobody is in the table yet.
	table := routing.RoutingTable()
	added := table.PeerAdded
	table.PeerAdded = func(id peer.ID) {
		added(id)
		found(id)
	}
	return routing, nil
}

// bootstrap connects to the members that the queue named, some of which may be
// gone by now, and has kad-dht find the neighbours in the key space from there.
func (n *Node) bootstrap(ctx context.Context, contacts []dht.Member) {
	var attempts sync.WaitGroup
	for _, member := range contacts {
		target, err := destinationOf(member)
		if err != nil || target.id == n.host.ID() {
			continue
		}
		attempts.Go(func() {
			if err := n.connect(ctx, target); err != nil {
				n.log.Debug("a contact named by the queue was not reached", "pilot", member.Pilot, "error", err)
				return
			}
			_, _ = n.routing.RoutingTable().TryAddPeer(target.id, true, true) // full: it is not needed
		})
	}
	attempts.Wait()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if _, err := n.routing.GetClosestPeers(ctx, string(n.host.ID())); err != nil {
		n.log.Debug("the neighbours in the key space were not found", "error", err) // there are none yet
	}
}

// fillRoutes puts members of every part of the key space into the routing
// table: at first, and when the roster has doubled since.
func (n *Node) fillRoutes() {
	n.mutex.Lock()
	size := n.overlay.Size()
	if size < 2*max(1, n.filled) {
		n.mutex.Unlock()
		return
	}
	n.filled = size
	members := n.overlay.Routes(bucketSize)
	n.mutex.Unlock()
	for _, m := range members {
		target, err := destinationOf(m)
		if err != nil {
			continue
		}
		n.host.Peerstore().AddAddrs(target.id, dialable(target.addresses), lookEvery)
		_, _ = n.routing.RoutingTable().TryAddPeer(target.id, false, true) // full: it is not needed
	}
}

// routed tells the core of a peer that entered the routing table.
func (n *Node) routed(id peer.ID) {
	n.inbox.put(func() {
		known := task.PeerID(id.String())
		if _, found := n.Member(known); found {
			return // from the roster, which says more than kad-dht can
		}
		member := dht.Member{Peer: known}
		if admitted, found := n.membership.member(id); found {
			member.Pilot = admitted.Pilot
		}
		for _, address := range n.host.Peerstore().Addrs(id) {
			member.Addresses = append(member.Addresses, address.String())
		}
		if len(member.Addresses) > 0 {
			n.step(dht.Met{Member: member})
		}
	})
}

// destination is a member in libp2p's terms.
type destination struct {
	id        peer.ID
	addresses []string
}

func destinationOf(m dht.Member) (destination, error) {
	id, err := peer.Decode(string(m.Peer))
	if err != nil {
		return destination{}, fmt.Errorf("peer id %.60q: %w", m.Peer, err)
	}
	return destination{id: id, addresses: m.Addresses}, nil
}

func (d destination) info() peer.AddrInfo {
	return peer.AddrInfo{ID: d.id, Addrs: dialable(d.addresses)}
}
