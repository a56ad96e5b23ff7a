package service

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pilotage-grid/pilotage/internal/durable"
	"github.com/pilotage-grid/pilotage/pilot/factory"
	"github.com/pilotage-grid/pilotage/task"
)

// folder is what a factory keeps.
type folder struct {
	path string
	lock *os.File
}

const (
	keptFile   = "factory.json"
	statusFile = "status.json"
	jobsFolder = "jobs"
	keepLogs   = 7 * 24 * time.Hour
)

// ErrRunning tells that another factory works with the folder.
var ErrRunning = errors.New("a factory runs with this folder")

// open makes the folder this process's.
func open(path string) (*folder, error) {
	if err := os.MkdirAll(filepath.Join(path, jobsFolder), 0o700); err != nil {
		return nil, fmt.Errorf("make the factory's folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the factory's folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("%s: %w: end that one, or give another --folder", path, ErrRunning)
	}
	if err := durable.Tidy(path); err != nil {
		return nil, errors.Join(fmt.Errorf("tidy the factory's folder: %w", err), lock.Close())
	}
	return &folder{path, lock}, nil
}

func (f *folder) close() { _ = f.lock.Close() }

// load reads what was kept; a new folder gets a mark of its own for its jobs.
func (f *folder) load() (factory.Kept, error) {
	var kept factory.Kept
	content, err := os.ReadFile(filepath.Join(f.path, keptFile))
	if errors.Is(err, fs.ErrNotExist) {
		return factory.Kept{Mark: "p" + strings.ToLower(rand.Text()[:4])}, nil
	}
	if err != nil {
		return kept, fmt.Errorf("read what the factory keeps: %w", err)
	}
	if err := json.Unmarshal(content, &kept); err != nil || kept.Mark == "" {
		return kept, fmt.Errorf("%s is damaged (%w): if no job of this factory is left in the batch system, remove it", filepath.Join(f.path, keptFile), err)
	}
	return kept, nil
}

// save writes a file durably and whole.
func (f *folder) save(name string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	path := filepath.Join(f.path, name)
	if err := durable.WriteFile(path, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Status reads what the factory of a folder has told last.
func Status(path string) (factory.Status, error) {
	var status factory.Status
	content, err := os.ReadFile(filepath.Join(path, statusFile))
	if err != nil {
		return status, fmt.Errorf("no factory has run with %s: %w", path, err)
	}
	if err := json.Unmarshal(content, &status); err != nil {
		return status, fmt.Errorf("read %s: %w", filepath.Join(path, statusFile), err)
	}
	return status, nil
}

func (f *folder) script(name string) string { return filepath.Join(f.path, jobsFolder, name) }
func (f *folder) log(name string) string    { return filepath.Join(f.path, jobsFolder, name+".log") }

// nodeLine begins the line of a job's log that names its node; the scripts of
// pilot/factory/batch print it first.
const nodeLine = "pilotage job at node "

// mostTrace bounds what is read of a job's log, from its beginning.
const mostTrace = 64 << 10

// trace reads what a job's log tells.
func (f *folder) trace(name string) (t factory.Trace) {
	file, err := os.Open(f.log(name))
	if err != nil {
		return t
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, mostTrace))
	if err != nil {
		return t
	}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if node, found := strings.CutPrefix(line, nodeLine); found {
			t.Node = task.Brief(node)
		} else if line != "" {
			t.Last = task.Brief(line)
		}
	}
	return t
}

// clean removes the scripts of jobs that are no more, which hold their accesses, at
// once, and their logs after a week.
func (f *folder) clean(now time.Time, jobs []factory.Job) {
	live := make(map[string]bool, len(jobs))
	for i := range jobs {
		live[jobs[i].Name] = true
	}
	entries, err := os.ReadDir(filepath.Join(f.path, jobsFolder))
	if err != nil {
		return
	}
	for _, entry := range entries {
		name, kind, _ := strings.Cut(entry.Name(), ".")
		if live[name] || kind == "job" {
			continue
		}
		if info, err := entry.Info(); err == nil && (kind != "log" || now.Sub(info.ModTime()) > keepLogs) {
			_ = os.Remove(filepath.Join(f.path, jobsFolder, entry.Name()))
		}
	}
}
