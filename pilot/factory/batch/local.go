package batch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/pilotage-grid/pilotage/internal/shell"
	"github.com/pilotage-grid/pilotage/pilot/factory"
)

// Local runs jobs as processes of this machine, at most so many at once; further
// ones are pending until a place is free. Each job has a file in its folder, so
// that another process finds the jobs again. Jobs go on when their factory ends.
type Local struct {
	Folder string
	Places int    // jobs at once
	Node   string // the name of this machine
}

// Submit keeps the job and starts it if there is a place.
func (l *Local) Submit(ctx context.Context, job *Job) (string, error) {
	script := "#!/bin/sh\nexport PILOTAGE_ACCESS=\"$0.json\" PILOTAGE_BATCH_JOB=" + job.Name + "\nexec >" + shell.Quote(job.Log) + " 2>&1 </dev/null\nexec " + job.Command + "\n"
	if err := os.WriteFile(job.Script+".json", []byte(job.Access), 0o600); err != nil {
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err := os.WriteFile(job.Script, []byte(script), 0o700); err != nil {
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err := os.WriteFile(l.path(job.Name), []byte(job.Script+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("%w: keep the job: %w", ErrRefused, err)
	}
	_, err := l.List(ctx) // starts it
	return job.Name, err
}

func (l *Local) path(name string) string { return filepath.Join(l.Folder, name+".job") }

// List tells how the jobs are, forgets those that have ended, and starts pending
// ones where there are places.
func (l *Local) List(context.Context) ([]factory.Listed, error) {
	files, err := filepath.Glob(filepath.Join(l.Folder, "*.job"))
	if err != nil {
		return nil, fmt.Errorf("list the jobs of %s: %w", l.Folder, err)
	}
	slices.Sort(files)
	var jobs []factory.Listed
	var pending []*factory.Listed
	running := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".job")
		_, pid, began, err := readJob(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		state := factory.Pending
		if pid != 0 {
			if state = factory.Running; startOf(pid) != began {
				_ = os.Remove(file)
				continue
			}
			running++
		}
		jobs = append(jobs, factory.Listed{ID: name, Name: name, State: state})
	}
	for i := range jobs {
		if jobs[i].State == factory.Pending {
			pending = append(pending, &jobs[i])
		} else {
			jobs[i].Node = l.Node
		}
	}
	for _, job := range pending {
		if running >= l.Places {
			job.Why = fmt.Sprintf("%d jobs run, that is all there is place for", running)
			continue
		}
		if err := l.start(job.Name); err != nil {
			return nil, err
		}
		job.State, job.Node = factory.Running, l.Node
		running++
	}
	return jobs, nil
}

// start runs a job in a session of its own.
func (l *Local) start(name string) error {
	script, _, _, err := readJob(l.path(name))
	if err != nil {
		return err
	}
	command := exec.Command(script)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		_ = os.Remove(l.path(name))
		return fmt.Errorf("start job %s: %w", name, err)
	}
	pid := command.Process.Pid
	began := startOf(pid)
	go func() { _ = command.Wait() }()
	line := fmt.Sprintf("%s\n%d %s\n", script, pid, began)
	if err := os.WriteFile(l.path(name), []byte(line), 0o600); err != nil {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		return fmt.Errorf("keep job %s: %w", name, err)
	}
	return nil
}

// Cancel ends jobs as batch systems do: SIGTERM to all processes of a job.
func (l *Local) Cancel(_ context.Context, ids ...string) error {
	for _, id := range ids {
		_, pid, began, err := readJob(l.path(id))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case pid == 0:
			if err := os.Remove(l.path(id)); err != nil {
				return fmt.Errorf("cancel job %s: %w", id, err)
			}
		case startOf(pid) == began:
			if err := syscall.Kill(-pid, syscall.SIGTERM); err != nil {
				return fmt.Errorf("cancel job %s: %w", id, err)
			}
		}
	}
	return nil
}

// readJob reads a job's file: its script, and its process once it was started.
func readJob(file string) (script string, pid int, began string, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", 0, "", fmt.Errorf("read a job: %w", err)
	}
	script, rest, _ := strings.Cut(string(content), "\n")
	if text, start, found := strings.Cut(strings.TrimSpace(rest), " "); found {
		if pid, err = strconv.Atoi(text); err != nil {
			return "", 0, "", fmt.Errorf("read job %s: %w", file, err)
		}
		began = start
	}
	return script, pid, began, nil
}

// startOf identifies a living process beside its number, which may be used
// again: by the time at which it started. It is "" when there is none.
func startOf(pid int) string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}
