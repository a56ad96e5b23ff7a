package spawner

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AllowPorts adds TCP ports to a ruleset that limits connections.
func AllowPorts(ruleset int, ports []int) error {
	const rulePort = 2 // LANDLOCK_RULE_NET_PORT
	for _, port := range ports {
		rule := struct{ allowed, port uint64 }{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)}
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), rulePort, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		if errno != 0 {
			return fmt.Errorf("add a Landlock rule: %w", errno)
		}
	}
	return nil
}

// MakeRuleset makes a ruleset of Landlock. The caller closes the descriptor.
func MakeRuleset(attributes *unix.LandlockRulesetAttr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(attributes)), unsafe.Sizeof(*attributes), 0)
	if errno != 0 {
		return -1, fmt.Errorf("make a Landlock ruleset: %w", errno)
	}
	return int(fd), nil
}

// Restrict puts the calling thread for ever into the domain of a ruleset.
func Restrict(ruleset int) error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return fmt.Errorf("enter a Landlock domain: %w", errno)
	}
	return nil
}
