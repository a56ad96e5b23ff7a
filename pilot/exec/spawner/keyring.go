package spawner

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// JoinKeyring gives the calling thread, and what it forks, an empty session keyring:
// the pilot's may hold Kerberos tickets and AFS tokens. A node without keyrings, or
// one that denies them to the pilot and so to payloads, needs none. Where the
// account may have no more of them (kernel.keys.maxbytes), as when a payload has made
// keys without end, what is in the given keyrings and in the account's goes, which
// payloads can empty as well.
func JoinKeyring(spent ...int) error {
	for range keyringTries {
		_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
		switch {
		case err == nil, errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			return nil
		case !errors.Is(err, unix.EDQUOT):
			return fmt.Errorf("give payloads their own session keyring: %w", err)
		}
		for _, keyring := range append(spent, unix.KEY_SPEC_USER_KEYRING) {
			_, _ = unix.KeyctlInt(unix.KEYCTL_CLEAR, keyring, 0, 0, 0) // a payload may have closed it
		}
		held, err := unix.KeyctlBuffer(unix.KEYCTL_READ, unix.KEY_SPEC_SESSION_KEYRING, nil, 0)
		if err == nil && held == 0 {
			return nil // an empty one stays
		}
		<-time.After(5 * time.Millisecond)
	}
	return errors.New("give payloads their own session keyring: the account may have no more keys: see /proc/key-users, and kernel.keys.maxbytes and maxkeys of sysctl")
}

// keyringTries bounds the wait for the kernel, which gives back what was used a moment
// after keys have gone: 5 ms each.
const keyringTries = 40
