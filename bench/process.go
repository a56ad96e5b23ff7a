package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"

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

// usage is what a process has used: CPU time of all its threads, and the
// memory that it occupies now.
func (p *process) usage() (cpu time.Duration, resident int64, err error) {
	return processUsage(p.PID())
}

func processUsage(pid int) (cpu time.Duration, resident int64, err error) {
	var stat procfs.ProcStat
	proc, err := procfs.NewProc(pid)
	if err == nil {
		stat, err = proc.Stat()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("what process %d has used: %w", pid, err)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second)), int64(stat.ResidentMemory()), nil
}

// spawnersOf finds the processes that start payloads for a pilot.
func spawnersOf(pilot int) (found []int) {
	all, _ := procfs.AllProcs()
	for _, proc := range all {
		if command, _ := proc.CmdLine(); len(command) == 0 || command[0] != spawner.Name {
			continue
		}
		if stat, err := proc.Stat(); err == nil && stat.PPID == pilot { // else it has just ended
			found = append(found, proc.PID)
		}
	}
	return found
}
