package exec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// Network is how far payloads reach over the network.
type Network struct {
	None    bool  // not at all
	Limited bool  // by TCP to Ports only
	Ports   []int // in order
}

// String satisfies pflag.Value.
func (n *Network) String() string {
	switch {
	case n == nil:
		return ""
	case n.None:
		return "none"
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
	*n = Network{None: text == "none", Limited: limited}
	if !limited {
		if !n.None && text != "host" {
			return errors.New("give none, host or ports=80,443,1094")
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

// portsABI is the version of Landlock that knows ports.
const portsABI = 4

// check tells why the level cannot do it.
func (n *Network) check(level task.Confinement, landlockABI int) error {
	switch {
	case n.None && level < Namespaces:
		return fmt.Errorf("--payload-network none takes level %s, and this node has %s", Namespaces, level)
	case n.Limited && (level < Landlock || landlockABI < portsABI):
		return errors.New("--payload-network ports= takes Landlock ABI 4 (Linux 6.7), which this node does not have")
	}
	return nil
}
