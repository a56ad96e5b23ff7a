package spawner

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// JoinKeyring gives the calling thread, and what it forks, an empty session keyring:
// the pilot's may hold Kerberos tickets and AFS tokens. A node without keyrings, or
// one that denies them to the pilot and so to payloads, needs none. Where the
// account may have no more of them (kernel.keys.maxkeys), an empty one stays.
func JoinKeyring() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return nil
	case errors.Is(err, unix.EDQUOT):
		held, readErr := unix.KeyctlBuffer(unix.KEYCTL_READ, unix.KEY_SPEC_SESSION_KEYRING, nil, 0)
		if readErr == nil && held == 0 {
			return nil
		}
	}
	return fmt.Errorf("give payloads their own session keyring (see sysctl kernel.keys.maxkeys): %w", err)
}
