package fetch

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/task"
)

const (
	// progressEvery is how often a read from a storage element shows progress:
	// a few times per renewal of its grant.
	progressEvery = 500 * time.Millisecond
	// reopenings is how often a read that broke off is taken up again where it
	// stopped, before the replica counts as unreachable.
	reopenings = 3
)

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// errWrite marks errors of the pilot's own disk.
type errWrite struct{ error }

func (e errWrite) Unwrap() error { return e.error }

// fromStorage reads a replica into the cache.
func (f *Fetcher) fromStorage(j *job, a cache.TransferFromSE) cache.TransferDone {
	key := a.File.Key()
	if f.already(j, key) {
		return cache.TransferDone{Arrived: true}
	}
	j.forgetParts()
	var bytes task.Bytes
	readErr := f.readReplica(j, a, &bytes)
	if bytes > 0 || readErr == nil {
		f.countRead(a.Replica.Site, bytes)
	}
	err := readErr
	if err == nil {
		err = f.publish(j, a.File, nil)
	}
	j.forgetParts()
	var own errWrite
	var mismatch *disk.MismatchError
	fault := cache.SourceFault{Fault: cache.Unreachable, Err: err}
	switch {
	case err == nil:
		return cache.TransferDone{Arrived: true}
	case errors.As(err, &mismatch):
		fault.Fault = cache.Corrupt
	case errors.Is(err, storage.ErrNotFound):
		fault.Fault = cache.Gone
	case errors.As(err, &own), readErr == nil:
		return f.localFailure(j, key, cache.TransferDone{}, err)
	}
	return cache.TransferDone{Faults: []cache.SourceFault{fault}}
}

// readReplica writes a replica's bytes to the job's writer.
func (f *Fetcher) readReplica(j *job, a cache.TransferFromSE, bytes *task.Bytes) error {
	if settings := f.config.Settings(); a.Replica.Site == f.config.Site && settings.SE != "" {
		// The site's own element is trusted with tokens and folders.
		if _, err := f.config.Storage.Element(settings.SE); err != nil {
			return fmt.Errorf("storage element of %s: %w: correct it with `pilotage site add`", f.config.Site, err)
		}
	}
	shown := time.Now()
	for try := 0; ; try++ {
		before := *bytes
		err := f.readFrom(j, a, bytes, &shown)
		var own errWrite
		if err == nil || j.ctx.Err() != nil || errors.As(err, &own) || *bytes == before || try >= reopenings || !storage.Temporary(err) {
			return err
		}
	}
}

// readFrom reads from where an earlier try stopped.
func (f *Fetcher) readFrom(j *job, a cache.TransferFromSE, bytes *task.Bytes, shown *time.Time) error {
	content, size, err := f.config.Storage.OpenReplica(j.ctx, a.Replica.URL, int64(*bytes))
	if err != nil {
		return err
	}
	defer content.Close()
	if want := a.File.Size; want >= 0 && size >= 0 && task.Bytes(size) != want {
		return &disk.MismatchError{Key: a.File.Key(), What: "size", Want: fmt.Sprint(int64(want)), Got: fmt.Sprint(size)}
	}
	if j.writer == nil {
		if j.writer, err = f.config.Cache.Create(a.File.Key(), max(task.Bytes(size), a.File.Size)); err != nil {
			return errWrite{err}
		}
	}
	buffer := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buffer)
	for {
		n, err := content.Read(*buffer)
		if n > 0 {
			if _, writeErr := j.writer.WriteAt((*buffer)[:n], int64(*bytes)); writeErr != nil {
				return errWrite{writeErr}
			}
			*bytes += task.Bytes(n)
			if now := time.Now(); now.Sub(*shown) >= progressEvery {
				*shown = now
				f.tell(cache.Progress{Transfer: a.Transfer})
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (f *Fetcher) countRead(owner task.Site, bytes task.Bytes) {
	f.readsMu.Lock()
	defer f.readsMu.Unlock()
	read := f.reads[owner]
	if read == nil {
		read = &task.SERead{Owner: owner}
		f.reads[owner] = read
	}
	read.Files++
	read.Bytes += bytes
}

func sortedReads(reads map[task.Site]*task.SERead) []task.SERead {
	all := make([]task.SERead, 0, len(reads))
	for _, read := range reads {
		all = append(all, *read)
	}
	slices.SortFunc(all, func(a, b task.SERead) int { return strings.Compare(string(a.Owner), string(b.Owner)) })
	return all
}
