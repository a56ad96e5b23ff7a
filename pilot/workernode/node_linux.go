package workernode

import (
	"fmt"
	"os"
	"runtime"
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

// freeMemory is what new processes could have of the node's memory without
// swapping; 0 when the system does not say.
func freeMemory() task.Bytes {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kibibytes, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || kibibytes < 0 {
		return 0
	}
	return task.Bytes(kibibytes) * task.KiB
}

// coreSpeed is the clock of a core in GHz: its highest where the kernel knows
// that, else the one at this moment, 0 where it tells neither.
func coreSpeed() float64 {
	if text, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"); err == nil {
		if kilohertz, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil && kilohertz > 0 {
			return kilohertz / 1e6
		}
	}
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "cpu MHz")
	line, _, _ := strings.Cut(rest, "\n")
	megahertz, err := strconv.ParseFloat(strings.Trim(line, " \t:"), 64)
	if err != nil || megahertz < 0 {
		return 0
	}
	return megahertz / 1e3
}

// nodeCPUs is how many CPUs the node has, of which this process may be allowed
// a few only: the load is that of all of them.
func nodeCPUs() int {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return runtime.NumCPU()
	}
	return max(1, strings.Count(string(text), "\ncpu")) // the line before counts them together
}

// loadPerCPU is the node's load average of the last minute per CPU.
func loadPerCPU() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load / float64(nodeCPUs())
}

// hideFromPayloads keeps processes of the same user from reading this
// process's memory and environment through /proc.
func hideFromPayloads() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protect the pilot's memory: %w", err)
	}
	return nil
}
