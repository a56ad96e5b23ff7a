package exec

import (
	"container/list"
	"fmt"
	"os"
	"path/filepath"
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

// logKeeper holds the log files of ended payloads until somebody else has what
// counts of them, and bounds their sum. It is safe for use by many goroutines.
type logKeeper struct {
	folder string
	keep   task.Bytes

	mutex sync.Mutex
	files map[string]*list.Element // by path
	order *list.List               // of logFile, oldest first
	total task.Bytes
}

type logFile struct {
	path string
	size task.Bytes
}

func newLogKeeper(folder string, keep task.Bytes) *logKeeper {
	return &logKeeper{folder: folder, keep: keep, files: map[string]*list.Element{}, order: list.New()}
}

func (k *logKeeper) path(attempt string, stream Stream) string {
	return filepath.Join(k.folder, attempt+"."+string(stream))
}

// add enters a finished file and removes the oldest ones beyond the bound.
func (k *logKeeper) add(path string, size task.Bytes) {
	size = max(size, leastLog)
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.files[path] = k.order.PushBack(logFile{path, size})
	for k.total += size; k.total > k.keep; {
		k.remove(k.order.Front())
	}
}

// drop removes the files of an attempt.
func (k *logKeeper) drop(attempt string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, stream := range []Stream{Stdout, Stderr} {
		if file := k.files[k.path(attempt, stream)]; file != nil {
			k.remove(file)
		}
	}
}

func (k *logKeeper) remove(element *list.Element) {
	file := k.order.Remove(element).(logFile)
	delete(k.files, file.path)
	k.total -= file.size
	_ = os.Remove(file.path) // gone already: all the better
}

// keepLogs enters an attempt's files; silent streams have none.
func (a *attempt) keepLogs() {
	for _, s := range a.streams {
		if s.file != nil {
			a.runner.logs.add(s.path, task.Bytes(s.kept.Load()))
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
