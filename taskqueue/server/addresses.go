package server

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Addresses are where a server is reached.
type Addresses struct {
	GRPC   string   // HOST:PORT that can be dialled, the first of Access
	HTTP   string   // HOST:PORT that can be dialled
	Access []string // as access files name gRPC
}

// runFile is the name, in the queue's folder, of the file that says where the
// running server is.
const runFile = "run.json"

func (s *Server) writeRunFile() error {
	content, err := json.MarshalIndent(map[string]any{
		"pid": os.Getpid(), "grpc": s.addresses.GRPC, "http": s.addresses.HTTP,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", runFile, err)
	}
	return writeFile(filepath.Join(s.config.DataDir, runFile), append(content, '\n'), 0o600)
}

// reachable returns how others reach a listener.
func reachable(listener net.Listener, advertise []string) ([]string, error) {
	bound, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("listener %s is not TCP", listener.Addr())
	}
	port := strconv.Itoa(bound.Port)
	var addresses []string
	for _, given := range advertise {
		host, itsPort, err := net.SplitHostPort(given)
		if err != nil {
			host, itsPort = given, port
		}
		if number, err := strconv.ParseUint(itsPort, 10, 16); err != nil || number == 0 || host == "" {
			return nil, fmt.Errorf("advertised address %q is not HOST or HOST:PORT", given)
		}
		addresses = append(addresses, net.JoinHostPort(host, itsPort))
	}
	if len(addresses) > 0 {
		return addresses, nil
	}
	if !bound.IP.IsUnspecified() {
		return []string{net.JoinHostPort(bound.IP.String(), port)}, nil
	}
	for _, ip := range interfaceAddresses() {
		addresses = append(addresses, net.JoinHostPort(ip.String(), port))
	}
	if len(addresses) == 0 {
		addresses = []string{net.JoinHostPort("127.0.0.1", port)}
	}
	return addresses, nil
}

// interfaceAddresses returns the addresses of this machine that others can
// use, IPv4 first, since a site's worker nodes seldom lack it.
func interfaceAddresses() []netip.Addr {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil // the caller goes on with what else it has
	}
	var ips []netip.Addr
	for _, address := range found {
		prefix, err := netip.ParsePrefix(address.String())
		if err != nil {
			continue
		}
		if ip := prefix.Addr().Unmap(); ip.IsGlobalUnicast() && !ip.IsLoopback() {
			ips = append(ips, ip)
		}
	}
	slices.SortStableFunc(ips, func(a, b netip.Addr) int {
		switch {
		case a.Is4() == b.Is4():
			return 0
		case a.Is4():
			return -1
		}
		return 1
	})
	return ips
}

// certificateHosts returns every name and address that the server's
// certificate is for.
func (a *access) certificateHosts() []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	for _, ip := range interfaceAddresses() {
		hosts = append(hosts, ip.WithZone("").String())
	}
	for _, address := range append(slices.Clone(a.addresses.Access), a.addresses.HTTP) {
		if host, _, err := net.SplitHostPort(address); err == nil {
			hosts = append(hosts, host)
		}
	}
	hosts = append(hosts, a.config.Hosts...)
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
