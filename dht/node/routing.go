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
	bucketSize   = 8
	concurrency  = 3
	resiliency   = 3
	refreshEvery = 90 * time.Second
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
		kaddht.RoutingTableRefreshPeriod(refreshEvery),
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

// bootstrap connects to the members that the queue named and has kad-dht look
// around from there. Some of them may be gone by now.
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
			}
		})
	}
	attempts.Wait()
	if err := n.routing.Bootstrap(ctx); err != nil {
		n.log.Warn("kad-dht did not start to look around", "error", err)
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
