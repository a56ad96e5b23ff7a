package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/libp2p/go-libp2p"
	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/pilotage-grid/pilotage/identity"
)

// Carrier carries the bytes of nodes. In production that is TCP, which a nil
// Config.Carrier stands for; package memnet has others, over which thousands
// of nodes live in one process. Everything else is the same for all of them.
type Carrier interface {
	// Host makes the host that a node talks through. It does not listen yet,
	// and it lets nobody in whom the endpoint does not admit.
	Host(e Endpoint) (host.Host, error)
	// Routing lists what kad-dht has to be told to run over the carrier.
	Routing() []kaddht.Option
	// Reach opens a connection to a port of the pilot at an address and closes
	// it again: others can do that, too, if no error is returned.
	Reach(ctx context.Context, address net.IP, port uint32) error
}

// Endpoint is what a carrier needs to know of the node that it carries for.
type Endpoint struct {
	// Key is the node's identity.
	Key *identity.PilotKey
	// Advertise is the address of the node's own that it was told to use.
	Advertise netip.Addr

	membership *membership
	gate       *gate
}

// Gate refuses connections that nothing should be spent on.
func (e Endpoint) Gate() connmgr.ConnectionGater { return e.gate }

// Certificate is the node's membership in DER form; nil before Join.
func (e Endpoint) Certificate() []byte { return e.membership.certificate() }

// Admit judges the certificate that a peer has shown, whose key the carrier
// has proven, and remembers whom it lets in. It is for carriers that do not
// use Security.
func (e Endpoint) Admit(id peer.ID, key crypto.PubKey, certificate []byte) error {
	return e.membership.judge(id, key, certificate)
}

// Security is the handshake of a carrier that bytes leave the process with:
// libp2p's TLS followed by the exchange of certificates.
func (e Endpoint) Security() libp2p.Option {
	return libp2p.Security(securityID, e.membership.transport)
}

// Options are libp2p's settings that do not depend on the carrier.
func (e Endpoint) Options() ([]libp2p.Option, error) {
	resources, err := newResources()
	if err != nil {
		return nil, err
	}
	return []libp2p.Option{
		libp2p.Identity(e.Key.Libp2p()),
		libp2p.UserAgent("pilotage"),
		libp2p.NoListenAddrs,
		libp2p.NoTransports,
		libp2p.ConnectionGater(e.gate),
		libp2p.ResourceManager(resources),
		libp2p.WithDialTimeout(dialTime),
		// Everything for the open Internet is off: a site is a LAN.
		libp2p.DisableRelay(),
		libp2p.DisableIdentifyAddressDiscovery(),
		libp2p.ForceReachabilityPublic(),
		libp2p.UDPBlackHoleSuccessCounter(nil),
		libp2p.IPv6BlackHoleSuccessCounter(nil),
		libp2p.DisableMetrics(),
		libp2p.Ping(false),
	}, nil
}

// overTCP is the carrier of production.
type overTCP struct{}

// Host satisfies Carrier.
func (overTCP) Host(e Endpoint) (host.Host, error) { return newHost(e) }

// Routing satisfies Carrier.
func (overTCP) Routing() []kaddht.Option { return nil }

// Reach satisfies Carrier.
func (overTCP) Reach(ctx context.Context, address net.IP, port uint32) error {
	dialer := net.Dialer{Timeout: probeTime}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address.String(), strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	return connection.Close()
}

// connected tells whether a peer can be talked to without dialling.
func connected(h host.Host, id peer.ID) bool {
	return h.Network().Connectedness(id) == network.Connected
}

func (n *Node) connect(ctx context.Context, target destination) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if err := n.host.Connect(ctx, target.info()); err != nil {
		return fmt.Errorf("connect to %s: %w", target.id, err)
	}
	return nil
}
