package exec

import (
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// prepareProcess makes this process fit to be the parent of payloads. It may
// be called again.
func prepareProcess() error {
	// Orphaned descendants come back to this process, so that they are found.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of orphaned payload processes: %w", err)
	}
	// A payload has the user id of the pilot, and the domain of the thread
	// that forked it: without this, /proc/PILOT/task/THREAD/mem would be open
	// to it in spite of Landlock.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the pilot's memory from payloads: %w", err)
	}
	return closeInheritedOnExec()
}

// closeInheritedOnExec marks descriptors that a shell or batch system left
// open; those of Go are marked already.
func closeInheritedOnExec() error {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	entries, err := os.ReadDir("/proc/self/fd") // kernels before 5.11
	if err != nil {
		return fmt.Errorf("list inherited file descriptors: %w", err)
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
