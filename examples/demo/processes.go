package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pilotage-grid/pilotage/internal/daemon"
)

const (
	readyTimeout = 30 * time.Second
	leaveTimeout = 10 * time.Second
)

// start brings up the queue, the sites and the pilots.
func (d *demo) start(ctx context.Context, binary string) error {
	logs := filepath.Join(d.folder, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	var err error
	d.queue, err = daemon.Start("the task queue", filepath.Join(logs, "queue.log"), binary, "taskqueue",
		"--data", filepath.Join(d.folder, "queue"), "--listen", "127.0.0.1:0", "--listen-http", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := d.queue.Ready(ctx, readyTimeout); err != nil {
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
			pilot, err := daemon.Start("pilot "+name, filepath.Join(logs, name+".log"), binary, "pilot",
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
		if _, err := pilot.Ready(ctx, readyTimeout); err != nil {
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
	if err := leave([]*daemon.Process{d.queue}); err != nil {
		return err
	}
	if left := leftBehind(d.folder); len(left) > 0 {
		return fmt.Errorf("%d processes are left behind, the first is %d in %s", len(left), left[0].pid, left[0].folder)
	}
	return nil
}

// leave asks processes to end and waits until they have.
func leave(processes []*daemon.Process) error {
	for _, p := range processes {
		p.Signal(syscall.SIGTERM)
	}
	limit := time.After(leaveTimeout)
	for _, p := range processes {
		select {
		case <-p.Ended():
			if err := p.Err(); err != nil {
				return fmt.Errorf("%s did not end well: %w", p.Name, err)
			}
		case <-limit:
			return fmt.Errorf("%s is still there %s after SIGTERM", p.Name, leaveTimeout)
		}
	}
	return nil
}

// cleanUp ends every process that is left and removes the folder.
func (d *demo) cleanUp() error {
	_ = leave(d.pilots) // payloads go with their pilots
	for _, p := range d.pilots {
		p.Kill()
	}
	if d.queue != nil {
		_ = leave([]*daemon.Process{d.queue})
		d.queue.Kill()
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
func unasked(pilots []*daemon.Process) ([]string, error) {
	var found []string
	for _, p := range pilots {
		data, err := os.ReadFile(p.Log)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, "without the consent of the file's home") {
				found = append(found, p.Name+": "+strings.TrimSpace(line))
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
	for _, p := range append([]*daemon.Process{d.queue}, d.pilots...) {
		if p == nil {
			continue
		}
		data, err := os.ReadFile(p.Log)
		if err != nil || len(data) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		fmt.Fprintf(w, "--- the last messages of %s:\n", p.Name)
		for _, line := range lines[max(0, len(lines)-3):] {
			fmt.Fprintf(w, "  %.300s\n", line)
		}
	}
}
