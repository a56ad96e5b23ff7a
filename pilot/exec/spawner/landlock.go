package spawner

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Scope keeps the calling thread and what it forks from sending signals and
// connecting to abstract sockets outside; files are another wall's matter.
func Scope(scopes uint64) error {
	attributes := unix.LandlockRulesetAttr{Scoped: scopes}
	ruleset, err := MakeRuleset(&attributes)
	if err != nil {
		return err
	}
	defer unix.Close(ruleset)
	return Restrict(ruleset)
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
