package workernode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/task"
)

// Which records pilots keep on their node, each in files of its own.
const (
	recordFile    = 4 << 20  // bytes after which a pilot begins the next file
	recordsInAll  = 64 << 20 // of all pilots of the account: the oldest files go
	keepRecords   = 180 * 24 * time.Hour
	recordsEnding = ".jsonl"
)

// NodeRecord says that an attempt ran on a node: one line at its begin, one at its end.
type NodeRecord struct {
	Task     task.ID      `json:"task"` // whose work its workflow is, the queue knows
	Attempt  string       `json:"attempt"`
	Site     task.Site    `json:"site"`
	Node     string       `json:"node"`
	Pilot    task.PilotID `json:"pilot"`
	BatchJob string       `json:"batch_job,omitempty"`
	Process  int          `json:"process"`
	Started  time.Time    `json:"started"`
	Ended    time.Time    `json:"ended,omitzero"`
	Note     string       `json:"note,omitempty"` // how it ended
}

// recorded are payloads whose begin and end are written to files of this pilot. Run may be
// called from any goroutine.
type recorded struct {
	agent.Payloads
	folder string
	about  NodeRecord // what is the same in all
	log    *slog.Logger

	mutex sync.Mutex
	file  *os.File
	size  int
	begun int // files
}

// Run satisfies agent.Payloads.
func (r *recorded) Run(ctx context.Context, spec exec.Spec, started func(at time.Time, process int)) exec.Result {
	line := r.about
	line.Task, line.Attempt = spec.Task.ID, spec.Attempt.String()
	result := r.Payloads.Run(ctx, spec, func(at time.Time, process int) {
		line.Started, line.Process = at.UTC(), process
		r.write(line)
		started(at, process)
	})
	if !result.Started.IsZero() {
		line.Ended, line.Note = result.Ended.UTC(), "succeeded"
		if !result.OK {
			line.Note = "failed: " + task.Brief(result.Reason)
		}
		r.write(line)
	}
	return result
}

// write appends a line. A payload runs also where none can be written.
func (r *recorded) write(line NodeRecord) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	text, err := json.Marshal(line)
	if err == nil && (r.file == nil || r.size > recordFile) {
		err = r.next()
	}
	if err == nil {
		_, err = r.file.Write(append(text, '\n'))
		r.size += len(text)
	}
	if err != nil {
		r.log.Warn("what runs on this node is not recorded", "attempt", line.Attempt, "error", err)
	}
}

// next begins a file.
func (r *recorded) next() error {
	_ = r.close()
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return err
	}
	r.begun++
	name := fmt.Sprintf("%s-%s-%d%s", time.Now().UTC().Format("20060102T150405"), r.about.Pilot, r.begun, recordsEnding)
	var err error
	if r.file, err = os.OpenFile(filepath.Join(r.folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	r.size = 0
	if err := r.tidy(); err != nil {
		r.log.Warn("old records of what ran on this node could not be removed", "folder", r.folder, "error", err)
	}
	return nil
}

// tidy removes files that are too old or too much.
func (r *recorded) tidy() error {
	files, err := recordFiles(r.folder)
	total := int64(0)
	for _, path := range slices.Backward(files) {
		info, gone := os.Lstat(path)
		if gone != nil {
			continue
		}
		if total += info.Size(); total > recordsInAll || time.Since(info.ModTime()) > keepRecords {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

// Close ends the file.
func (r *recorded) Close() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.close()
}

func (r *recorded) close() error {
	if r.file == nil {
		return nil
	}
	file := r.file
	r.file = nil
	return file.Close()
}

// recordFiles are those in a folder, the oldest first.
func recordFiles(folder string) ([]string, error) {
	return filepath.Glob(filepath.Join(folder, "*"+recordsEnding)) // sorted, and names begin with the time
}

// NodeRecords reads the attempts that pilots have recorded in a folder, in the order in
// which they began. One without end runs, or its pilot was killed. A line that is not whole
// is passed over: a pilot may be writing it.
func NodeRecords(folder string) (records []NodeRecord, err error) {
	if _, err := os.ReadDir(folder); err != nil {
		return nil, err
	}
	files, err := recordFiles(folder)
	at := make(map[string]int)
	for _, path := range files {
		content, failed := os.ReadFile(path)
		err = errors.Join(err, failed)
		for line := range bytes.Lines(content) {
			var record NodeRecord
			if json.Unmarshal(line, &record) != nil {
				continue
			}
			if i, known := at[record.Attempt]; known {
				records[i] = record
				continue
			}
			at[record.Attempt] = len(records)
			records = append(records, record)
		}
	}
	slices.SortStableFunc(records, func(a, b NodeRecord) int { return a.Started.Compare(b.Started) })
	return records, err
}
