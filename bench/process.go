package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/internal/daemon"
	"github.com/pilotage-grid/pilotage/pilot/exec/spawner"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
)

// process is a daemon that is measured: a run of the program under test.
type process struct{ *daemon.Process }

func startProcess(name, log, program string, args ...string) (*process, error) {
	p, err := daemon.Start(name, log, program, args...)
	if err != nil {
		return nil, err
	}
	return &process{p}, nil
}

// startPilot starts a pilot of a site as a batch system would, with its cache in
// a folder of its own name.
func (q *queueProcess) startPilot(name, site string, flags ...string) (*process, error) {
	args := []string{
		"pilot", "--access", q.accessPath("pilot-" + site), "--cache", filepath.Join(q.folder, name),
		"--advertise", "127.0.0.1", "--lifetime", "24h", "--grace", "1s", "--log", "warn",
	}
	args = append(append(args, flags...), q.profileFlags(name)...)
	return startProcess(name, filepath.Join(q.folder, name+".log"), q.setup.Program, args...)
}

// waitReady returns what the ready line says.
func (p *process) waitReady(ctx context.Context) (said map[string]string, err error) {
	return p.Ready(ctx, readyTimeout)
}

// stop ends the process in an orderly way, and after a while at once.
func (p *process) stop() { p.Stop(stopTimeout) }

// clockTicks is how many of the ticks of /proc/PID/stat are a second; Linux
// fixes it for user space.
const clockTicks = 100

// usage is what a process has used: CPU time of all its threads, and the
// memory that it occupies now.
func (p *process) usage() (cpu time.Duration, resident int64, err error) {
	return processUsage(p.PID())
}

func processUsage(pid int) (cpu time.Duration, resident int64, err error) {
	fields, err := statOf(pid)
	if err != nil {
		return 0, 0, err
	}
	var numbers [3]int64
	for i, field := range []int{14, 15, 24} { // utime, stime, rss
		if numbers[i], err = strconv.ParseInt(fields[field-statFrom], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	ticks := time.Duration(numbers[0] + numbers[1])
	return ticks * time.Second / clockTicks, numbers[2] * int64(os.Getpagesize()), nil
}

// statFrom is the number in proc(5) of the first field that statOf returns.
const statFrom = 3

// statOf reads the fields of /proc/PID/stat from the state on, which is number 3: the
// name before it, in parentheses, may hold spaces.
func statOf(pid int) ([]string, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil, fmt.Errorf("what process %d is and has used: %w", pid, err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if len(fields) < 22 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// spawnersOf finds the processes that start payloads for a pilot.
func spawnersOf(pilot int) (found []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		command, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		if name, _, _ := strings.Cut(string(command), "\x00"); name != spawner.Name {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(folder))
		if fields, err := statOf(pid); err == nil && fields[4-statFrom] == strconv.Itoa(pilot) { // its parent; else it has just ended
			found = append(found, pid)
		}
	}
	return found
}
