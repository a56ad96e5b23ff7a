package workernode

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotage-grid/pilotage/dht/node"
)

// queuePagePort is where a queue serves its page and its figures unless it is told
// otherwise: on its own host, where payloads may run, without asking for a token.
const queuePagePort = 7421

// tcpPorts are the TCP ports of the overlay and of the data server.
func tcpPorts(addresses []string, data net.Addr) []string {
	var ports []string
	for _, address := range addresses {
		if _, port, found := strings.Cut(address, "/tcp/"); found {
			ports = append(ports, port)
		}
	}
	if _, port, err := net.SplitHostPort(data.String()); err == nil {
		ports = append(ports, port)
	}
	return ports
}

// outside lists the ports of a pilot that found none free where most listen.
func outside(listens []string, asked string) (ports []string) {
	if asked != node.DefaultPorts.String() {
		return nil
	}
	for _, text := range listens {
		if port, err := strconv.Atoi(text); err == nil && !node.DefaultPorts.Has(port) {
			ports = append(ports, text)
		}
	}
	return ports
}

// ownPorts lists the ports of the queue and of pilots, as far as a pilot knows them:
// those of its queue, the ranges in which it and most others listen, and its own.
func ownPorts(queue, own []string, ranges ...node.PortRange) []int {
	ports := []int{queuePagePort}
	for _, address := range queue {
		if _, port, err := net.SplitHostPort(address); err == nil {
			own = append(slices.Clip(own), port)
		}
	}
	for _, text := range own {
		if port, err := strconv.Atoi(text); err == nil {
			ports = append(ports, port)
		}
	}
	for _, r := range ranges {
		for port := max(1, int(r.Low)); port <= int(r.High); port++ {
			ports = append(ports, port)
		}
	}
	return ports
}
