package node

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	libp2prouting "github.com/libp2p/go-libp2p/core/routing"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// Kademlia's numbers: on one site k=8, alpha=3, beta=3 route as accurately as
// the defaults of the open Internet at a half to a quarter of the cost.
const (
	bucketSize  = 8
	concurrency = 3
	resiliency  = 3
	// refreshEvery is how often kad-dht looks every part of the key space up, some
	// ten lookups: seldom, for connections bring it news of members all the time.
	refreshEvery = 10 * time.Minute
	// kbucketTag is under what kad-dht protects connections to the far half of its table.
	kbucketTag = "kbucket"
	// enough is how many of a bucket a newcomer looks for.
	enough = 3
	// lookTime bounds a lookup; who hangs answers nothing.
	lookTime = 2 * time.Second
)

// routing is kad-dht as a router only: values and provider records are off, locations
// are the overlay's own.
type routing struct {
	kad          *kaddht.IpfsDHT
	bootstrapped chan struct{} // closed when it has been brought to its contacts
	contacts     atomic.Pointer[[]peer.AddrInfo]
	without      atomic.Pointer[map[peer.ID]bool] // are not asked in lookups
}

func (r *routing) open(h host.Host, c Config) (err error) {
	prefix := protocolPrefix(c.Site)
	r.know(h.ID(), nil)
	r.without.Store(new(map[peer.ID]bool))
	r.kad, err = kaddht.New(h, append(c.Carrier.Routing(),
		kaddht.ProtocolPrefix(protocol.ID(prefix)),
		kaddht.V1ProtocolOverride(protocol.ID(prefix+"/kad")),
		kaddht.Mode(kaddht.ModeServer), // by itself it stays a client on a LAN
		kaddht.BucketSize(bucketSize), kaddht.Concurrency(concurrency), kaddht.Resiliency(resiliency),
		kaddht.DisableValues(), kaddht.DisableProviders(),
		kaddht.RoutingTableRefreshPeriod(refreshEvery), kaddht.DisableAutoRefresh(), // the loop has it look
		kaddht.RoutingTableRefreshQueryTimeout(dialTime),
		kaddht.BootstrapPeersFunc(func() []peer.AddrInfo { return *r.contacts.Load() }),
		kaddht.QueryFilter(func(_ any, other peer.AddrInfo) bool { return !(*r.without.Load())[other.ID] }),
	)...)
	if err != nil {
		return fmt.Errorf("start kad-dht: %w", err)
	}
	return nil
}

// know takes the members that the queue has named.
func (r *routing) know(self peer.ID, members []dht.Member) {
	var contacts []peer.AddrInfo
	for _, m := range members {
		if target, err := destinationOf(m); err == nil && target.id != self {
			contacts = append(contacts, target.info())
		}
	}
	r.contacts.Store(&contacts)
}

// met has kad-dht take in whom this pilot has dialled: who shows a membership serves
// lookups, so it needs not be asked one first. Those that have dialled this pilot are, as
// where they listen is only known by then.
func (n *Node) met(_ network.Network, connection network.Conn) {
	if connection.Stat().Direction == network.DirOutbound {
		_, _ = n.routing.kad.RoutingTable().TryAddPeer(connection.RemotePeer(), true, false) // full: it is not needed
	}
}

// tellRouting has the core told who enters the routing table and who leaves it. No
// connection is made before Join, so nobody is there yet.
func (n *Node) tellRouting() {
	table := n.routing.kad.RoutingTable()
	added, removed := table.PeerAdded, table.PeerRemoved
	table.PeerAdded = func(id peer.ID) {
		added(id)
		n.host.ConnManager().Unprotect(id, kbucketTag) // its next question makes a new connection
		n.loop.Post(func() { n.step(dht.Routed{Member: n.memberOf(id)}) })
	}
	table.PeerRemoved = func(id peer.ID) {
		removed(id)
		n.post(dht.Unrouted{Peer: task.PeerID(id.String())})
	}
}

// memberOf is what libp2p and the handshake know of a peer.
func (n *Node) memberOf(id peer.ID) dht.Member {
	member := dht.Member{Peer: task.PeerID(id.String())}
	if admitted, found := n.membership.member(id); found {
		member.Pilot = admitted.Pilot
	}
	for _, address := range n.host.Peerstore().Addrs(id) {
		member.Addresses = append(member.Addresses, address.String())
	}
	return member
}

// bootstrap connects to the members that the queue named, some of which may be
// gone by now. The overlay has kad-dht look around from there.
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
	close(n.routing.bootstrapped)
}

// fill has kad-dht look up something in each part of the key space of which too few are
// known, but for those as near as the members that were found nearest to the own id: there
// everybody was found. Others that join and look around fill the rest, and so do the refreshes.
func (n *Node) fill(ctx context.Context, nearest []peer.ID) {
	table, self := n.routing.kad.RoutingTable(), dht.KeyOfPeer(n.self)
	far := math.MaxInt
	for _, id := range nearest {
		far = min(far, self.Common(dht.KeyOfPeer(task.PeerID(id.String()))))
	}
	for bits := range uint(min(far, len(table.GetTrackedCplsForRefresh()))) {
		if table.NPeersForCpl(bits) < enough && ctx.Err() == nil {
			n.fillPart(ctx, bits)
		}
	}
}

// fillPart looks something up among those whose ids share so many bits with the own one,
// until enough of them are known.
func (n *Node) fillPart(ctx context.Context, bits uint) {
	table := n.routing.kad.RoutingTable()
	somewhere, err := table.GenRandPeerID(bits)
	if err != nil {
		return // the table keeps no such part
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ctx, steps := libp2prouting.RegisterForQueryEvents(ctx)
	go func() {
		for range steps {
			if table.NPeersForCpl(bits) >= enough {
				stop()
			}
		}
	}()
	n.lookup(ctx, string(somewhere))
}

// lookup has kad-dht look up a peer id, and tells whether it ran out of time. What is
// found is in the routing table.
func (n *Node) lookup(ctx context.Context, target string) (ids []peer.ID, cut bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	ids, err := n.routing.kad.GetClosestPeers(ctx, target)
	if err != nil {
		n.log.Debug("a lookup has found few", "found", len(ids), "error", err) // a lone pilot finds nobody
	}
	return ids, ctx.Err() != nil
}

// refresh has kad-dht look every part of the key space up, unless it is closing.
func (n *Node) refresh() {
	n.life.unlessStopped(func() { n.routing.kad.RefreshRoutingTable() })
}

// look has kad-dht look up who is nearest to a key. Of those that it names, the ones
// that have answered count: they are connected.
func (n *Node) look(wish dht.Lookup) {
	select {
	case <-n.routing.bootstrapped:
	case <-n.life.ctx.Done():
		return
	}
	without := make(map[peer.ID]bool)
	for _, p := range wish.Without {
		if id, err := peer.Decode(string(p)); err == nil {
			without[id] = true
			n.routing.kad.RoutingTable().RemovePeer(id)
		}
	}
	n.routing.without.Store(&without)
	found, cut := n.lookup(n.life.ctx, wish.Target)
	if wish.Target != dht.Bottom {
		defer n.fill(n.life.ctx, found)
	}
	answer := dht.LookedUp{Target: wish.Target, Cut: cut}
	for _, id := range found {
		if connected(n.host, id) {
			answer.Members = append(answer.Members, n.memberOf(id))
		}
	}
	n.post(answer)
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
