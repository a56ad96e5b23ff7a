package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

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

// logKeeper bounds the log folder. It is safe for use by many goroutines.
type logKeeper struct {
	folder string
	keep   task.Bytes

	mutex sync.Mutex
	files []logFile // oldest first
	total task.Bytes
}

type logFile struct {
	path string
	size task.Bytes
}

// openLogs takes over the files of an earlier run.
func openLogs(folder string, keep task.Bytes) (*logKeeper, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("open the folder of payload logs: %w", err)
	}
	infos := make([]os.FileInfo, 0, len(entries))
	for _, entry := range entries {
		name := entry.Name()
		if filepath.Ext(name) != "."+string(Stdout) && filepath.Ext(name) != "."+string(Stderr) {
			continue
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	k := &logKeeper{folder: folder, keep: keep}
	for _, info := range infos {
		k.add(filepath.Join(folder, info.Name()), task.Bytes(info.Size()))
	}
	return k, nil
}

func (k *logKeeper) path(attempt string, stream Stream) string {
	return filepath.Join(k.folder, attempt+"."+string(stream))
}

// add enters a finished file and removes the oldest ones beyond the bound.
func (k *logKeeper) add(path string, size task.Bytes) {
	size = max(size, leastLog)
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.files = append(k.files, logFile{path, size})
	k.total += size
	for k.total > k.keep && len(k.files) > 0 {
		oldest := k.files[0]
		k.files = k.files[1:]
		k.total -= oldest.size
		_ = os.Remove(oldest.path) // gone already: all the better
	}
}

// keepLogs enters an attempt's files; silent streams have none.
func (a *attempt) keepLogs(streams ...*stream) {
	for _, s := range streams {
		if s.file != nil {
			a.runner.logs.add(s.path, task.Bytes(s.kept))
		}
	}
}

// OpenLog opens the kept stream of an attempt that ran here; of a running one,
// what came so far. The error is fs.ErrNotExist when the payload wrote
// nothing, never ran here, or its log gave way to newer ones.
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
