package spawner

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ForkLimited forks a program and bounds what its account may have of processes and
// threads, if most is not 0: in a user namespace of its own, those in it. The caller
// forks nothing else meanwhile.
func ForkLimited(program string, arguments []string, attributes *syscall.ProcAttr, most int) (int, error) {
	limit := unix.Rlimit{Cur: uint64(most), Max: uint64(most)}
	var before unix.Rlimit
	// Root is not bound itself, and may lack the right to bind another account's
	// process later: some containers take CAP_SYS_RESOURCE from it. That leaves the
	// payload the way to its hard limit.
	if most > 0 && os.Geteuid() == 0 && unix.Getrlimit(unix.RLIMIT_NPROC, &before) == nil {
		_ = unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: min(limit.Cur, before.Max), Max: before.Max})
		defer func() { _ = unix.Setrlimit(unix.RLIMIT_NPROC, &before) }()
	}
	pid, err := syscall.ForkExec(program, arguments, attributes)
	if err == nil && most > 0 { // some microseconds late
		_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &limit, nil)
	}
	return pid, err
}
