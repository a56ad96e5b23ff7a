// Package filelock holds locks on files and folders that the kernel gives back when
// their process ends, however it ends (flock). It has no goroutines.
package filelock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrHeld tells that somebody else holds a lock.
var ErrHeld = errors.New("another process holds the lock")

// Open opens a file or folder and locks it until the returned file is closed. With
// wait it waits for its turn; else the error is ErrHeld where somebody holds it.
func Open(path string, flags int, wait bool) (*os.File, error) {
	file, err := os.OpenFile(path, flags|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := Lock(file, wait); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Lock locks a file that is open.
func Lock(file *os.File, wait bool) error {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		switch err := unix.Flock(int(file.Fd()), how); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrHeld
		default:
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
}
