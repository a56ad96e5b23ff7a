package main

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
	readyTimeout = 30 * time.Second
	leaveTimeout = 10 * time.Second
)

// process is a daemon of the demo: in a process group of its own, so that a
// Ctrl-C reaches the demo alone and the end comes in order, and killed by the
// kernel should the demo be killed.
type process struct {
	name    string
	command *exec.Cmd
	log     string
	ready   chan map[string]string // what the ready line says; closed without one
	ended   chan struct{}
	err     error // how it ended; read after ended is closed
}

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// environment is ours without what would make a pilot or a tool behave
// otherwise than the demo says.
func environment() []string {
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

// startProcess starts a daemon with its messages in a file.
func startProcess(name, log, binary string, args ...string) (*process, error) {
	messages, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = messages.Close() }()
	command := exec.Command(binary, args...)
	command.Stderr = messages
	command.Env = environment()
	command.SysProcAttr = attributes()
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, command: command, log: log, ready: make(chan map[string]string, 1), ended: make(chan struct{})}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.follow(stdout)
	return p, nil
}

// follow reads the ready line, then whatever comes, and reaps the process.
func (p *process) follow(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		words, found := strings.CutPrefix(lines.Text(), "ready ")
		if !found {
			continue
		}
		said := map[string]string{}
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

// waitReady returns what the ready line says.
func (p *process) waitReady(ctx context.Context) (map[string]string, error) {
	limit := time.NewTimer(readyTimeout)
	defer limit.Stop()
	select {
	case said := <-p.ready:
		return said, nil
	case <-p.ended:
		return nil, fmt.Errorf("%s ended before it was ready: %w", p.name, errors.Join(p.err, errors.New("see its log")))
	case <-limit.C:
		return nil, fmt.Errorf("%s is not ready after %s", p.name, readyTimeout)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// kill ends the process at once if it is still there.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// start brings up the queue, the sites and the pilots.
func (d *demo) start(ctx context.Context, binary string) error {
	logs := filepath.Join(d.folder, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	var err error
	d.queue, err = startProcess("the task queue", filepath.Join(logs, "queue.log"), binary, "taskqueue",
		"--data", filepath.Join(d.folder, "queue"), "--listen", "127.0.0.1:0", "--listen-http", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := d.queue.waitReady(ctx); err != nil {
		return err
	}
	for _, site := range siteNames {
		storage := filepath.Join(d.folder, "storage", site)
		if err := os.MkdirAll(storage, 0o700); err != nil {
			return err
		}
		if err := d.tool.addSite(ctx, site, "file://"+storage); err != nil {
			return err
		}
	}
	for n := range pilotsPerSite {
		for _, site := range siteNames {
			name := fmt.Sprintf("%s-%d", site, n+1)
			pilot, err := startProcess("pilot "+name, filepath.Join(logs, name+".log"), binary, "pilot",
				"--access", filepath.Join(d.folder, "queue", "access", "pilot-"+site+".json"),
				"--cache", filepath.Join(d.folder, "pilots", name), "--slots", "1", "--memory", "1GiB", "--disk", "1GiB",
				"--cache-size", "200MiB", "--advertise", "127.0.0.1", "--lifetime", "1h", "--grace", "1s")
			if err != nil {
				return err
			}
			d.pilots = append(d.pilots, pilot)
		}
	}
	for _, pilot := range d.pilots {
		if _, err := pilot.waitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stop lets the pilots leave, then ends the queue. Whatever does not go when
// asked to is a failure; cleanUp kills it.
func (d *demo) stop() error {
	if err := leave(d.pilots); err != nil {
		return err
	}
	if err := leave([]*process{d.queue}); err != nil {
		return err
	}
	if left := leftBehind(d.folder); len(left) > 0 {
		return fmt.Errorf("%d processes are left behind, the first is %d in %s", len(left), left[0].pid, left[0].folder)
	}
	return nil
}

// leave asks processes to end and waits until they have.
func leave(processes []*process) error {
	for _, p := range processes {
		_ = p.command.Process.Signal(syscall.SIGTERM)
	}
	limit := time.NewTimer(leaveTimeout)
	defer limit.Stop()
	for _, p := range processes {
		select {
		case <-p.ended:
			if p.err != nil {
				return fmt.Errorf("%s did not end well: %w", p.name, p.err)
			}
		case <-limit.C:
			return fmt.Errorf("%s is still there %s after SIGTERM", p.name, leaveTimeout)
		}
	}
	return nil
}

// cleanUp ends every process that is left and removes the folder.
func (d *demo) cleanUp() error {
	_ = leave(d.pilots) // payloads go with their pilots
	for _, p := range d.pilots {
		p.kill()
	}
	if d.queue != nil {
		_ = leave([]*process{d.queue})
		d.queue.kill()
	}
	for _, stray := range leftBehind(d.folder) {
		_ = syscall.Kill(stray.pid, syscall.SIGKILL)
	}
	if d.keep {
		fmt.Printf("Everything is kept in %s\n", d.folder)
		return nil
	}
	return os.RemoveAll(d.folder)
}

// cachedFiles lists what the caches of each site hold: every file is in
// cache/ of its pilot's folder, under its digest.
func (d *demo) cachedFiles() (map[string]map[string]bool, error) {
	cached := map[string]map[string]bool{}
	for _, site := range siteNames {
		cached[site] = map[string]bool{}
		files, err := filepath.Glob(filepath.Join(d.folder, "pilots", site+"-*", "cache", "??", "*"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if name := filepath.Base(file); len(name) == 64 {
				cached[site][name] = true
			}
		}
		if len(cached[site]) == 0 {
			return nil, fmt.Errorf("there is nothing in the caches of %s", site)
		}
	}
	return cached, nil
}

// unasked finds the messages of pilots about reads of a storage element that
// nobody consented to.
func unasked(pilots []*process) ([]string, error) {
	var found []string
	for _, p := range pilots {
		data, err := os.ReadFile(p.log)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, "without the consent of the file's home") {
				found = append(found, p.name+": "+strings.TrimSpace(line))
			}
		}
	}
	return found, nil
}

// stray is a process that works in a folder of the demo.
type stray struct {
	pid    int
	folder string
}

// leftBehind finds payloads that outlived their pilots: payloads work in
// folders of the demo.
func leftBehind(folder string) []stray {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // fails for bad patterns only
	var found []stray
	for _, link := range links {
		place, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(place, folder+"/") {
			continue // gone, of another user, or not ours
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			found = append(found, stray{pid, place})
		}
	}
	return found
}

// showLogs prints the end of each process's messages.
func (d *demo) showLogs(w io.Writer) {
	for _, p := range append([]*process{d.queue}, d.pilots...) {
		if p == nil {
			continue
		}
		data, err := os.ReadFile(p.log)
		if err != nil || len(data) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		fmt.Fprintf(w, "--- the last messages of %s:\n", p.name)
		for _, line := range lines[max(0, len(lines)-3):] {
			fmt.Fprintf(w, "  %.300s\n", line)
		}
	}
}
