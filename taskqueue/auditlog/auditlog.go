// Package auditlog keeps what has left the queue's database of the audit log: files, each
// with records that follow each other, one JSON text a line, compressed by gzip. A file
// is written once and never changed. What is there twice, here and in the database, is
// the same. It starts no goroutine; one process at a time may write.
package auditlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/internal/durable"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// FolderName is the name of the folder in that of a queue.
const FolderName = "audit"

const (
	ending = ".jsonl.gz"
	// aside is the ending of files that tell what this queue has not seen.
	aside = ".aside"
	// inName is how times stand in names, so that these sort by time.
	inName = "20060102T150405.000000000"
)

// Closed is the folder with the files; it need not be there. It is safe for concurrent
// use.
type Closed struct {
	folder string

	mutex sync.Mutex
	name  string // of the file that was read last, as whoever reads on asks for it again
	last  taskqueue.AuditSegment
}

// In returns what was closed of a queue's log.
func In(queue string) *Closed { return &Closed{folder: filepath.Join(queue, FolderName)} }

// file is one of the folder, by what its name says: when its records are of.
type file struct {
	name        string
	first, last uint64
}

// files lists the files, oldest first.
func (c *Closed) files() (files []file, err error) {
	entries, err := os.ReadDir(c.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		first, last, _ := strings.Cut(strings.TrimSuffix(entry.Name(), ending), "-")
		from, err1 := time.Parse(inName, first)
		to, err2 := time.Parse(inName, last)
		if strings.HasSuffix(entry.Name(), ending) && err1 == nil && err2 == nil {
			files = append(files, file{entry.Name(), uint64(from.UnixNano()), uint64(to.UnixNano())})
		}
	}
	return files, nil
}

// Last is the time of the newest record, 0 if there is none.
func (c *Closed) Last() (uint64, error) {
	files, err := c.files()
	if len(files) == 0 {
		return 0, err
	}
	return files[len(files)-1].last, nil
}

// line is one of a file: first the digest before its records, then each of these,
// whose digests follow from it, and at last that of the last one.
type line struct {
	Before  string                 `json:"before,omitempty"`
	At      uint64                 `json:"at,omitempty"`
	Entries []taskqueue.AuditEntry `json:"entries,omitempty"`
	Digest  string                 `json:"digest,omitempty"`
}

// Add writes a file with the records of a segment, durably.
func (c *Closed) Add(s taskqueue.AuditSegment) error {
	if err := makeFolder(c.folder); err != nil {
		return err
	}
	var packed bytes.Buffer
	pack := gzip.NewWriter(&packed)
	lines := json.NewEncoder(pack)
	lines.SetEscapeHTML(false)
	err := lines.Encode(line{Before: hex.EncodeToString(s.Before[:])})
	for i := range s.Records {
		err = errors.Join(err, lines.Encode(line{At: s.Records[i].At, Entries: s.Records[i].Entries}))
	}
	first, last := s.Records[0], s.Records[len(s.Records)-1]
	err = errors.Join(err, lines.Encode(line{Digest: hex.EncodeToString(last.Digest[:])}), pack.Close())
	if err != nil {
		return err
	}
	path := filepath.Join(c.folder, first.Time().UTC().Format(inName)+"-"+last.Time().UTC().Format(inName)+ending)
	return durable.WriteFile(path, packed.Bytes(), 0o600)
}

// makeFolder makes a folder that a power cut leaves there, with what is written in it.
func makeFolder(path string) error {
	return errors.Join(os.MkdirAll(path, 0o700), durable.Sync(filepath.Dir(path)))
}

// After returns the records later than a time of the oldest file that has any; Before is
// the digest before the first of the file.
//
// Errors: taskqueue.ErrAuditBroken.
func (c *Closed) After(at uint64) (s taskqueue.AuditSegment, err error) {
	files, err := c.files()
	if err != nil {
		return s, err
	}
	for _, f := range files {
		if f.last <= at {
			continue
		}
		s, err = c.read(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its time was over
		}
		if err != nil {
			return s, fmt.Errorf("%w: %s: %w", taskqueue.ErrAuditBroken, f.name, err)
		}
		s.Records = s.Records[slices.IndexFunc(s.Records, func(a taskqueue.AuditRecord) bool { return a.At > at }):]
		return s, nil
	}
	return s, nil
}

var errOther = errors.New("it is not what was written")

// read reads a file, unless it is the one that was read last.
func (c *Closed) read(f file) (s taskqueue.AuditSegment, err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.name != f.name {
		if s, err = c.unpack(f); err != nil {
			return s, err
		}
		c.name, c.last = f.name, s
	}
	return c.last, nil
}

// unpack reads a file whole and compares it with its digest.
func (c *Closed) unpack(f file) (s taskqueue.AuditSegment, err error) {
	opened, err := os.Open(filepath.Join(c.folder, f.name))
	if err != nil {
		return s, err
	}
	defer func() { _ = opened.Close() }()
	unpacked, err := gzip.NewReader(bufio.NewReader(opened))
	if err != nil {
		return s, err
	}
	lines := json.NewDecoder(unpacked)
	var next line
	if err := lines.Decode(&next); err != nil {
		return s, err
	}
	if _, err := hex.Decode(s.Before[:], []byte(next.Before)); err != nil || len(next.Before) != hex.EncodedLen(len(s.Before)) {
		return s, errOther
	}
	for digest := s.Before; ; {
		next = line{}
		if err := lines.Decode(&next); err != nil {
			return s, err
		}
		if next.Digest != "" {
			if n := len(s.Records); n == 0 || s.Records[0].At != f.first || s.Records[n-1].At != f.last || next.Digest != hex.EncodeToString(digest[:]) {
				return s, errOther
			}
			return s, nil
		}
		record := taskqueue.AuditRecord{At: next.At, Entries: next.Entries}
		digest = record.Sum(digest)
		record.Digest = digest
		s.Records = append(s.Records, record)
	}
}

// longestFile is what a file counts for at most, with the time without records before it.
const longestFile = 24 * time.Hour

// Drop deletes the files after which the others tell of so long a time or longer. It asks
// no clock: one that jumps, for a moment or for good, costs as much as one file counts for.
func (c *Closed) Drop(keep time.Duration) error {
	files, err := c.files()
	told := time.Duration(0)
	for i := len(files) - 1; i > 0; i-- {
		if told += min(time.Duration(files[i].last-files[i-1].last), longestFile); told < keep {
			continue
		}
		for _, f := range files[:i] {
			err = errors.Join(err, os.Remove(filepath.Join(c.folder, f.name)))
		}
		break
	}
	return err
}

// SetAside durably gives files another name that tell what came after a time: of a queue
// whose database was put back, they are of another course of things.
func (c *Closed) SetAside(after uint64) (names []string, err error) {
	files, err := c.files()
	for _, f := range files {
		if f.last > after {
			names = append(names, f.name+aside)
			err = errors.Join(err, os.Rename(filepath.Join(c.folder, f.name), filepath.Join(c.folder, f.name+aside)))
		}
	}
	if len(names) > 0 { // else a power cut could bring one back that is older than what comes next
		err = errors.Join(err, durable.Sync(c.folder))
	}
	return names, err
}

// CopyTo copies the files into a folder, that of a backup or of a queue.
func (c *Closed) CopyTo(queue string) error {
	files, err := c.files()
	if err != nil || len(files) == 0 {
		return err
	}
	into := In(queue).folder
	if err := makeFolder(into); err != nil {
		return err
	}
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(c.folder, f.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // its time was over
		}
		if err == nil {
			err = durable.WriteFile(filepath.Join(into, f.name), content, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
