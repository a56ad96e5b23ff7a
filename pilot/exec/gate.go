package exec

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/pilot/exec/spawner"
)

// gate bounds what confined payloads reach beside files: TCP ports, and where the
// kernel can (ABI 6) no process and no abstract socket that is not their own. Its
// Landlock ruleset is made once. A spawner enters it once, for all of its payloads; at
// level Landlock the thread of each payload does. With nearly all ports in it, that
// takes some 40 ms.
type gate struct {
	ruleset *os.File // nil: it bounds nothing
	scoped  bool
	ports   bool
	open    error // why ports could not be bounded
}

// portsABI is the version of Landlock that knows ports, scopesABI that which knows
// scopes.
const (
	portsABI  = 4
	scopesABI = 6
)

// openGate makes the gate as far as the kernel can.
func openGate(abi int, cfg *Config) (g gate, err error) {
	var attributes unix.LandlockRulesetAttr
	if g.scoped = abi >= scopesABI; g.scoped {
		attributes.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	ports := cfg.Network.allowed()
	if cfg.trial { // it tells as much, and costs nothing
		ports = ports[:min(len(ports), 1)]
	}
	if len(ports) > 0 {
		if abi < portsABI {
			g.open = errors.New("it takes Landlock ABI 4 (Linux 6.7)")
		} else if g.open = (&gate{ports: true}).try(); g.open == nil {
			g.ports, attributes.Access_net = true, unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	if !g.scoped && !g.ports {
		return g, nil
	}
	ruleset, err := spawner.MakeRuleset(&attributes)
	if err != nil {
		return g, err
	}
	g.ruleset = os.NewFile(uintptr(ruleset), "ruleset")
	if g.ports {
		err = spawner.AllowPorts(ruleset, ports)
	}
	return g, err
}

// enter puts the calling thread behind the gate, for ever.
func (g *gate) enter() error {
	if g.ports {
		if err := spawner.OnlyPlainTCP(); err != nil {
			return err
		}
	}
	if g.ruleset == nil {
		return nil
	}
	return spawner.Restrict(int(g.ruleset.Fd()))
}

// try has a thread enter that is thrown away.
func (g *gate) try() error {
	outcome := make(chan error, 1)
	onOwnThread(func() {
		if err := denyPrivileges(); err != nil {
			outcome <- err
			return
		}
		outcome <- g.enter()
	})
	if err := <-outcome; err != nil {
		return fmt.Errorf("bound what payloads reach: %w", err)
	}
	return nil
}

// files are what a spawner needs to enter.
func (g *gate) files() []int {
	if g.ruleset == nil {
		return nil
	}
	return []int{int(g.ruleset.Fd())}
}

func (g *gate) close() {
	if g.ruleset != nil {
		_ = g.ruleset.Close()
	}
}
