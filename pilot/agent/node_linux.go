package agent

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// systemMemory is the memory of the node.
func systemMemory() (task.Bytes, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("read the size of the memory: %w", err)
	}
	return task.Bytes(uint64(info.Totalram) * uint64(info.Unit)), nil
}

// freeDisk is the free space of a folder's file system.
func freeDisk(dir string) (task.Bytes, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return task.Bytes(stat.Bavail * uint64(stat.Bsize)), nil
}

// loadPerCPU is the node's load average of the last minute per CPU.
func loadPerCPU(cpus int) float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load / float64(max(1, cpus))
}

// hideFromPayloads keeps processes of the same user from reading this
// process's memory and environment through /proc.
func hideFromPayloads() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protect the pilot's memory: %w", err)
	}
	return nil
}
