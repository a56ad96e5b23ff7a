package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
)

// process is a daemon that is measured: a run of the program under test.
type process struct {
	name    string
	command *exec.Cmd
	log     string
	ready   chan string // what the ready line says
	ended   chan struct{}
	err     error // how it ended; read after ended is closed
}

// startProcess starts the program with its messages in a file. The kernel
// kills it should the bench be killed.
func startProcess(name, log, program string, args ...string) (*process, error) {
	messages, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("the messages of %s: %w", name, err)
	}
	defer func() { _ = messages.Close() }()
	command := exec.Command(program, args...)
	command.Stderr = messages
	command.Env = plainEnvironment()
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, command: command, log: log, ready: make(chan string, 1), ended: make(chan struct{})}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.follow(stdout)
	return p, nil
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

// plainEnvironment is ours without what would change how pilots behave.
func plainEnvironment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SLURM_") && !strings.HasPrefix(variable, "PILOTAGE_") {
			kept = append(kept, variable)
		}
	}
	if os.Geteuid() == 0 {
		kept = append(kept, "PILOTAGE_PAYLOAD_USER=nobody")
	}
	return kept
}

// follow reads the ready line, then whatever comes, and reaps the process.
func (p *process) follow(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if words, found := strings.CutPrefix(lines.Text(), "ready "); found {
			select {
			case p.ready <- words:
			default: // it has said so before
			}
		}
	}
	p.err = p.command.Wait()
	close(p.ended)
}

// waitReady returns what the ready line says.
func (p *process) waitReady(ctx context.Context) (words string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case words = <-p.ready:
		return words, nil
	case <-p.ended:
		return "", errors.Join(fmt.Errorf("%s ended before it was ready", p.name), p.err, p.quote())
	case <-ctx.Done():
		return "", errors.Join(fmt.Errorf("%s is not ready: %w", p.name, ctx.Err()), p.quote())
	}
}

// quote is the end of what the process has written, as an error.
func (p *process) quote() error {
	text, err := os.ReadFile(p.log)
	if err != nil || len(text) == 0 {
		return err
	}
	return fmt.Errorf("it wrote: %s", strings.TrimSpace(string(text[max(0, len(text)-2000):])))
}

// stop ends the process in an orderly way, and after a while at once.
func (p *process) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	patience := time.NewTimer(stopTimeout)
	defer patience.Stop()
	select {
	case <-p.ended:
	case <-patience.C:
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

// clockTicks is how many of the ticks of /proc/PID/stat are a second; Linux
// fixes it for user space.
const clockTicks = 100

// usage is what a process has used: CPU time of all its threads, and the
// memory that it occupies now.
func (p *process) usage() (cpu time.Duration, resident int64, err error) {
	return processUsage(p.command.Process.Pid)
}

func processUsage(pid int) (cpu time.Duration, resident int64, err error) {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return 0, 0, fmt.Errorf("what process %d has used: %w", pid, err)
	}
	// The name in parentheses may hold spaces. After it come the state and the
	// fields of proc(5) from number 3: utime is 14, stime 15, rss 24.
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if len(fields) < 22 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var numbers [3]int64
	for i, field := range []int{11, 12, 21} {
		if numbers[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	ticks := time.Duration(numbers[0] + numbers[1])
	return ticks * time.Second / clockTicks, numbers[2] * int64(os.Getpagesize()), nil
}
