package node

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// AdvertiseAddress chooses this host's address for the overlay and the data
// server. flag is an address of this host, or a CIDR that contains exactly the
// interface address wanted (the first one is taken); when it is empty, the
// address from which the queue (HOST:PORT) is reached. Nothing is sent.
func AdvertiseAddress(queue, flag string) (netip.Addr, error) {
	if flag == "" {
		return towards(queue)
	}
	if address, err := netip.ParseAddr(flag); err == nil {
		if address.IsUnspecified() || address.IsMulticast() {
			return netip.Addr{}, fmt.Errorf("%s: others cannot connect to it, give one address of this host", flag)
		}
		return address.Unmap(), nil
	}
	prefix, err := netip.ParsePrefix(flag)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%.60q: give an address or a CIDR, e.g. 10.1.2.3 or 10.1.0.0/16", flag)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s: list this host's addresses: %w", flag, err)
	}
	var outside []string
	for _, candidate := range own {
		network, ok := candidate.(*net.IPNet)
		if !ok {
			continue
		}
		if address, ok := netip.AddrFromSlice(network.IP); ok && prefix.Masked().Contains(address.Unmap()) {
			return address.Unmap(), nil
		}
		if !network.IP.IsLoopback() && !network.IP.IsLinkLocalUnicast() {
			outside = append(outside, network.IP.String())
		}
	}
	return netip.Addr{}, fmt.Errorf("%s: this host has no address within it, only %s", flag, cmp.Or(strings.Join(outside, ", "), "that of loopback"))
}

func towards(queue string) (netip.Addr, error) {
	connection, err := net.Dial("udp", queue)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the address from which the queue %.100q is reached: %w (--advertise names one)", queue, err)
	}
	defer func() { _ = connection.Close() }() // nothing was sent
	address, err := netip.ParseAddrPort(connection.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the address from which the queue %.100q is reached: %w", queue, err)
	}
	return address.Addr().Unmap().WithZone(""), nil
}

func listenAddress(address netip.Addr, port uint16) multiaddr.Multiaddr {
	// An address and a port always have a multiaddress.
	listen, err := manet.FromNetAddr(&net.TCPAddr{IP: address.AsSlice(), Port: int(port)})
	if err != nil {
		panic("node: no multiaddress for " + address.String() + ": " + err.Error())
	}
	return listen
}

// dialable keeps of a member's addresses those that this node dials: plain TCP
// at an IP address, so that no member makes others ask a name server.
func dialable(texts []string) []multiaddr.Multiaddr {
	var addresses []multiaddr.Multiaddr
	for _, text := range texts {
		address, err := multiaddr.NewMultiaddr(text)
		if err != nil {
			continue
		}
		if _, err := manet.ToNetAddr(address); err != nil || len(address) != 2 {
			continue
		}
		if _, err := address.ValueForProtocol(multiaddr.P_TCP); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
