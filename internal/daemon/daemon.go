// Package daemon starts runs of a program and waits for their ready lines, as
// benches and demos do. A process ends when it is told to, or with whoever started
// it; the goroutine that follows it ends with the process.
package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Process is a run of a program that says when it is ready.
type Process struct {
	Name string
	Log  string // file of its messages

	command *exec.Cmd
	ready   chan map[string]string
	ended   chan struct{}
	err     error // how it ended; read after ended is closed
}

// Start starts a program with its messages in a file.
func Start(name, log, program string, args ...string) (*Process, error) {
	messages, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("the messages of %s: %w", name, err)
	}
	defer func() { _ = messages.Close() }()
	command := exec.Command(program, args...)
	command.Stderr, command.Env, command.SysProcAttr = messages, Environment(), Attributes()
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &Process{Name: name, Log: log, command: command, ready: make(chan map[string]string, 1), ended: make(chan struct{})}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.follow(stdout)
	return p, nil
}

// Attributes put a process in a group of its own, so that a Ctrl-C reaches who
// started it alone and the end comes in order; the kernel kills it should that one
// be killed.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Environment is ours without what would change how pilots and tools behave.
func Environment() []string {
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
func (p *Process) follow(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		words, found := strings.CutPrefix(lines.Text(), "ready ")
		if !found {
			continue
		}
		said := make(map[string]string)
		for _, word := range strings.Fields(words) {
			key, value, _ := strings.Cut(word, "=")
			said[key] = value
		}
		select {
		case p.ready <- said:
		default: // it has said so before
		}
	}
	p.err = p.command.Wait()
	close(p.ended)
}

// Ready waits until the process is ready, and returns what it says then: "ready a=b"
// is b by a.
func (p *Process) Ready(ctx context.Context, patience time.Duration) (said map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case said = <-p.ready:
		return said, nil
	case <-p.ended:
		return nil, errors.Join(fmt.Errorf("%s ended before it was ready", p.Name), p.err, p.quote())
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("%s is not ready: %w", p.Name, ctx.Err()), p.quote())
	}
}

// quote is the end of what the process has written, as an error.
func (p *Process) quote() error {
	text, err := os.ReadFile(p.Log)
	if err != nil || len(text) == 0 {
		return err
	}
	return fmt.Errorf("it wrote: %s", strings.TrimSpace(string(text[max(0, len(text)-2000):])))
}

// PID is the process's id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Signal sends a signal to a process that may have ended.
func (p *Process) Signal(signal syscall.Signal) { _ = p.command.Process.Signal(signal) }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err is how the process ended, once Ended is closed.
func (p *Process) Err() error { return p.err }

// Stop ends the process in an orderly way, and after a while at once.
func (p *Process) Stop(patience time.Duration) {
	p.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(patience, func() { p.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	<-p.ended
}

// Kill ends the process at once if it is still there.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}
