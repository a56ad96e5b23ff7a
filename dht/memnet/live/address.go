package live

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	// overlayPort is the port of stations that may choose.
	overlayPort = 4001
	// ephemeralPort is where connections come from.
	ephemeralPort = 50000
)

// invented is the n-th address of 10.0.0.0/8.
func invented(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// addressOf claims TCP: libp2p and kad-dht then take it for what they know.
func addressOf(ip netip.Addr, port uint16) multiaddr.Multiaddr {
	address, err := manet.FromNetAddr(&net.TCPAddr{IP: ip.AsSlice(), Port: int(port)})
	if err != nil {
		panic("memnet: no multiaddress for " + ip.String() + ": " + err.Error())
	}
	return address
}

// portOf is the port that a station is asked to listen on; one that may be
// chosen is always the same.
func portOf(wish multiaddr.Multiaddr) (uint16, error) {
	text, err := wish.ValueForProtocol(multiaddr.P_TCP)
	if err != nil {
		return 0, fmt.Errorf("listen on %s in memory: %w", wish, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("listen on %s in memory: %w", wish, err)
	}
	if port == 0 {
		port = overlayPort
	}
	return uint16(port), nil
}
