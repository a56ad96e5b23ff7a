package exec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// Network is how far payloads reach over the network: as far as the node does, but
// for the ports of Pilotage, unless it says otherwise.
type Network struct {
	None    bool  // not at all
	All     bool  // as far as the node
	Limited bool  // by TCP to Ports only
	Ports   []int // in order
	// Pilotage are the ports of the queue and of pilots, which confined payloads
	// reach on no machine.
	Pilotage []int
}

// String satisfies pflag.Value.
func (n *Network) String() string {
	switch {
	case n == nil:
		return ""
	case n.None:
		return "none"
	case n.All:
		return "all"
	case n.Limited:
		ports := make([]string, len(n.Ports))
		for i, port := range n.Ports {
			ports[i] = strconv.Itoa(port)
		}
		return "ports=" + strings.Join(ports, ",")
	}
	return "host"
}

// Set satisfies pflag.Value.
func (n *Network) Set(text string) error {
	list, limited := strings.CutPrefix(text, "ports=")
	*n = Network{None: text == "none", All: text == "all", Limited: limited}
	if !limited {
		if !n.None && !n.All && text != "host" {
			return errors.New("give host, all, none or ports=80,443,1094")
		}
		return nil
	}
	for field := range strings.SplitSeq(list, ",") {
		port, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || port < 1 || port > 65535 {
			return fmt.Errorf("%q is no port: give for example ports=80,443,1094", field)
		}
		n.Ports = append(n.Ports, port)
	}
	slices.Sort(n.Ports)
	n.Ports = slices.Compact(n.Ports)
	return nil
}

// Type satisfies pflag.Value.
func (*Network) Type() string { return "reach" }

// check tells why the level cannot do it.
func (n *Network) check(level task.Confinement, g *gate) error {
	switch {
	case n.None && level < Namespaces:
		return fmt.Errorf("--payload-network none takes level %s, and this node has %s", Namespaces, level)
	case n.Limited && (level < Landlock || !g.ports):
		return fmt.Errorf("--payload-network ports= cannot be had at level %s of this node: %w", level, cmp.Or(g.open, errors.New("nothing confines payloads")))
	}
	return nil
}

// wellKnown is where the ports begin that only root listens on. Payloads need them on
// other machines, so a queue's port below it (443) stays open.
const wellKnown = 1024

// allowed lists the ports to which payloads may connect; nil is all.
func (n *Network) allowed() (ports []int) {
	if n.None || n.All || n.Limited || len(n.Pilotage) == 0 {
		return n.Ports
	}
	closed := make(map[int]bool, len(n.Pilotage))
	for _, port := range n.Pilotage {
		closed[port] = port >= wellKnown
	}
	for port := range 1 << 16 {
		if !closed[port] {
			ports = append(ports, port)
		}
	}
	return ports
}

// open says why payloads reach a port of Pilotage that they are not to; empty where
// they do not.
func (n *Network) open(g *gate) string {
	const open = "payloads reach the ports of the queue and of pilots: "
	switch {
	case n.None || n.All || n.Limited:
	case g.open != nil:
		return open + g.open.Error()
	case slices.ContainsFunc(n.Pilotage, func(port int) bool { return port < wellKnown }):
		return open + "one is below 1024, where payloads need those of other machines"
	}
	return ""
}

// sparesPilotage tells whether payloads reach no port of Pilotage.
func (n *Network) sparesPilotage(g *gate) bool {
	reached := func(port int) bool { return slices.Contains(n.Ports, port) || !n.Limited && port < wellKnown }
	return n.None || g.ports && !slices.ContainsFunc(n.Pilotage, reached)
}
