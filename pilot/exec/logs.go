package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Stream names one of a payload's two output streams.
type Stream string

// The streams; the values end the names of their files.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// leastLog is what a log file counts at least: a short one costs a block, too.
const leastLog = 4 * task.KiB

// logKeeper holds the log files of ended payloads until somebody else has what
// counts of them, and bounds what all pilots of the node hold. What there is, and
// which attempts have ended, the disk says: files of those are read-only. It is safe
// for use by many goroutines.
type logKeeper struct {
	folder string
	keep   task.Bytes
	all    func() []string // folders of all pilots of the node

	mutex sync.Mutex
	since task.Bytes // came since all files were looked at
}

func (k *logKeeper) path(attempt string, stream Stream) string {
	return filepath.Join(k.folder, attempt+"."+string(stream))
}

// ended enters a finished file. One that cannot be marked stays until its attempt is
// dropped.
func (k *logKeeper) ended(path string, size task.Bytes) error {
	err := os.Chmod(path, endedMode)
	k.mutex.Lock()
	defer k.mutex.Unlock()
	// Looking at all files costs some microseconds each: not for each of them.
	if k.since += max(size, leastLog); k.since >= k.keep/64 {
		k.since = 0
		k.sweep()
	}
	return err
}

const endedMode = 0o400

// sweep removes the oldest files of ended attempts beyond the bound.
func (k *logKeeper) sweep() {
	type logFile struct {
		path string
		size task.Bytes
		at   time.Time
	}
	var ended []logFile
	var total task.Bytes
	folders := []string{k.folder}
	if k.all != nil {
		folders = append(folders, k.all()...)
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	for _, folder := range folders {
		entries, _ := os.ReadDir(folder) // another pilot's may have gone
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil || !info.Mode().IsRegular() || !isOurs(entry.Name()) {
				continue
			}
			size := max(task.Bytes(info.Size()), leastLog)
			if total += size; info.Mode().Perm() == endedMode {
				ended = append(ended, logFile{filepath.Join(folder, entry.Name()), size, info.ModTime()})
			}
		}
	}
	slices.SortFunc(ended, func(a, b logFile) int { return a.at.Compare(b.at) })
	for _, file := range ended {
		if total <= k.keep {
			return
		}
		_ = os.Remove(file.path) // gone already: all the better
		total -= file.size
	}
}

// drop removes the files of an attempt.
func (k *logKeeper) drop(attempt string) {
	for _, stream := range []Stream{Stdout, Stderr} {
		_ = os.Remove(k.path(attempt, stream))
	}
}

// keepLogs enters an attempt's files; silent streams have none.
func (a *attempt) keepLogs() {
	for _, s := range a.streams {
		if s.file != nil {
			if err := a.runner.logs.ended(s.path, task.Bytes(s.kept.Load())); err != nil {
				a.log.Warn("a log counts against the node's bound and cannot be removed for it", "error", err)
			}
		}
	}
}

// DropLogs removes the log files of an attempt that has ended here: the queue
// has their ends. One without files is no error.
func (r *Runner) DropLogs(attempt task.AttemptID) { r.logs.drop(attempt.Suffix()) }

// OpenLog opens the kept stream of an attempt that ran here; of a running one,
// what came so far. The error is fs.ErrNotExist when the payload wrote
// nothing, never ran here, or its log was dropped or gave way to newer ones.
func (r *Runner) OpenLog(attempt task.AttemptID, stream Stream) (*os.File, error) {
	root, err := os.OpenRoot(r.cfg.LogDir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of payload logs: %w", err)
	}
	defer root.Close()
	file, err := root.Open(attempt.Suffix() + "." + string(stream))
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", attempt, err)
	}
	return file, nil
}
