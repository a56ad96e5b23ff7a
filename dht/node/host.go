package node

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/libp2p/go-libp2p/x/rate"
	"github.com/multiformats/go-multiaddr"
)

const (
	// dialTime bounds a connection attempt: on a LAN an answer takes
	// milliseconds, and an election waits for this.
	dialTime = 3 * time.Second
	// Connections above the high mark are trimmed to the low one; those that are in
	// use are protected. A member of the routing table needs none until it is asked.
	connectionsLow, connectionsHigh = 24, 32
	// connectionsPerPeer allows for both ends dialling at once, several times.
	connectionsPerPeer = 8
	// streamsPerPeer: one per protocol and direction are used, and some by
	// kad-dht's lookups.
	streamsPerPeer = 128
	// strangers bounds connections that have not shown a certificate yet.
	strangers = 1024
)

// newHost makes a libp2p host on TCP that does not listen yet.
func newHost(e Endpoint) (host.Host, error) {
	options, err := e.Options()
	if err != nil {
		return nil, err
	}
	connections, err := connmgr.NewConnManager(connectionsLow, connectionsHigh, connmgr.WithGracePeriod(time.Minute))
	if err != nil {
		return nil, fmt.Errorf("prepare the connection manager: %w", err)
	}
	made, err := libp2p.New(append(options,
		// TCP only: a killed process is seen within milliseconds. The port is
		// not shared: two pilots of one user could listen on the same one.
		libp2p.Transport(tcp.NewTCPTransport, tcp.DisableReuseport(), tcp.WithDialerForAddr(dialFrom(e.Advertise))),
		e.Security(),
		libp2p.Muxer(yamux.ID, yamux.DefaultTransport),
		libp2p.ConnectionManager(connections),
	)...)
	if err != nil {
		return nil, fmt.Errorf("start libp2p: %w", err)
	}
	return made, nil
}

// newResources lifts libp2p's limits per address, because a worker node runs
// up to 256 pilots on one, and its sums, because a master talks to 1,500
// pilots; what one peer or all strangers together may take stays bounded.
func newResources() (network.ResourceManager, error) {
	limits := rcmgr.PartialLimitConfig{
		Transient:   rcmgr.ResourceLimits{Conns: strangers, ConnsInbound: strangers},
		PeerDefault: rcmgr.ResourceLimits{Conns: connectionsPerPeer, Streams: streamsPerPeer},
	}
	everywhere := []rcmgr.ConnLimitPerSubnet{{PrefixLength: 0, ConnCount: 1 << 20}}
	resources, err := rcmgr.NewResourceManager(
		rcmgr.NewFixedLimiter(limits.Build(rcmgr.InfiniteLimits)),
		rcmgr.WithLimitPerSubnet(everywhere, everywhere),
		rcmgr.WithConnRateLimiters(&rate.Limiter{}),
		rcmgr.WithMetricsDisabled(),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare libp2p's resource manager: %w", err)
	}
	return resources, nil
}

// dialFrom makes connections come from the advertised address, so that a peer
// that is asked for a probe sees the address that others are told of.
func dialFrom(address netip.Addr) tcp.DialerForAddr {
	return func(remote multiaddr.Multiaddr) (tcp.ContextDialer, error) {
		dialer := &net.Dialer{}
		_, four := remote.ValueForProtocol(multiaddr.P_IP4)
		if (four == nil) == address.Is4() {
			dialer.LocalAddr = &net.TCPAddr{IP: address.AsSlice()}
		}
		return dialer, nil
	}
}

// listen opens a port of the range.
func listen(h host.Host, c Config) error {
	err := c.Ports.Listen(func(port uint16) error { return h.Network().Listen(listenAddress(c.Advertise, port)) })
	if err == nil {
		return nil
	}
	return fmt.Errorf("listen on %s, ports %s: %w (free a port, widen --port-range or give another --advertise)", c.Advertise, c.Ports, err)
}
