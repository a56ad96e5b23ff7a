// Package filelock holds locks on files and folders that the kernel gives back when
// their process ends, however it ends (flock). It has no goroutines.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld tells that somebody else holds a lock.
var ErrHeld = errors.New("another process holds the lock")

// Open opens a file or folder and locks it until the returned file is closed. With
// wait it waits for its turn; else the error is ErrHeld where somebody holds it.
func Open(path string, flags int, wait bool) (*os.File, error) {
	return open(path, flags, alone(wait))
}

// OpenShared is Open for one of many that hold the lock together. The error is ErrHeld
// where somebody holds it alone, and the other way about.
func OpenShared(path string, flags int) (*os.File, error) {
	return open(path, flags, unix.LOCK_SH|unix.LOCK_NB)
}

func open(path string, flags, how int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(file, how); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Lock locks a file that is open.
func Lock(file *os.File, wait bool) error { return flock(file, alone(wait)) }

// LockWithin is Lock that waits for so long at most. Errors: ErrHeld.
func LockWithin(file *os.File, most time.Duration) error {
	for end, pause := time.Now().Add(most), 50*time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		if err := Lock(file, false); !errors.Is(err, ErrHeld) || time.Now().After(end) {
			return err
		}
		<-time.After(pause)
	}
}

// Holder describes the process that has a file locked, for people.
func Holder(file *os.File) string {
	const unknown = "another process"
	info, err := file.Stat()
	if err != nil {
		return unknown
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return unknown
	}
	locks, _ := os.ReadFile("/proc/locks") // a line: number, FLOCK, ADVISORY, WRITE, process, major:minor:inode, range
	for line := range strings.Lines(string(locks)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], fmt.Sprintf(":%d", stat.Ino)) || f[4] == "0" {
			continue
		}
		status, _ := os.ReadFile(filepath.Join("/proc", f[4], "stat"))
		if _, state, _ := strings.Cut(string(status), ") "); strings.HasPrefix(state, "T") {
			return fmt.Sprintf("process %s, which is stopped (kill -CONT %s lets it go on)", f[4], f[4])
		}
		return "process " + f[4]
	}
	return unknown
}

func alone(wait bool) (how int) {
	if wait {
		return unix.LOCK_EX
	}
	return unix.LOCK_EX | unix.LOCK_NB
}

// Unlock gives the lock of an open file back.
func Unlock(file *os.File) error { return flock(file, unix.LOCK_UN) }

func flock(file *os.File, how int) error {
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

// Bytes of a file can be locked one by one, whether the file has them or not. These
// locks belong to the open file, not to the process, and have nothing to do with the
// file's own.

// LockByte locks one byte until UnlockByte, or until the file is closed: alone, or
// together with others that do so. Errors: ErrHeld.
func LockByte(file *os.File, at int64, together bool) error {
	kind := int16(unix.F_WRLCK)
	if together {
		kind = unix.F_RDLCK
	}
	err := byteLock(file, unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: at, Len: 1})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrHeld
	}
	return err
}

// UnlockByte gives the lock of a byte back.
func UnlockByte(file *os.File, at int64) error {
	return byteLock(file, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Start: at, Len: 1})
}

// ByteHeld tells whether another open file has a byte locked, in either way.
func ByteHeld(file *os.File, at int64) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
	err := byteLock(file, unix.F_OFD_GETLK, &lock)
	return lock.Type != unix.F_UNLCK, err
}

func byteLock(file *os.File, command int, lock *unix.Flock_t) error {
	for {
		err := unix.FcntlFlock(file.Fd(), command, lock)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock a byte of %s: %w", file.Name(), err)
		}
	}
}
