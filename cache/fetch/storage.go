package fetch

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
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

// seRead is one transfer from a storage element.
type seRead struct {
	fetcher  *Fetcher
	fetching *fetching
	cache.TransferFromSE
	offset task.Bytes // of the next byte
	bytes  task.Bytes // read
	shown  time.Time  // when progress was shown last
}

// fromStorage reads a replica into the cache. Where peers gave the beginning
// of a file of known digest, it reads the rest only.
func (f *Fetcher) fromStorage(g *fetching, a cache.TransferFromSE) cache.TransferDone {
	key := a.File.Key()
	if f.already(g, key) {
		return cache.TransferDone{Arrived: true}
	}
	r := &seRead{fetcher: f, fetching: g, TransferFromSE: a, shown: time.Now()}
	var describedBy task.PeerID // who vouched for the beginning
	if g.writer != nil && g.download != nil && !a.File.Digest.IsZero() && a.File.Size >= 0 {
		r.offset = g.download.Prefix()
		_, describedBy, _ = g.download.Manifest()
	}
	if r.offset == 0 {
		g.forgetParts()
	}
	resumed := r.offset > 0
	readErr := r.read()
	if r.bytes > 0 || readErr == nil {
		f.countRead(a.Replica.Site, r.bytes)
	}
	err := readErr
	if err == nil {
		stop := f.keepShowing(r.Transfer)
		err = f.publish(g, a.File, nil)
		stop()
	}
	if !resumed || readErr == nil { // else the peers' chunks are as good as before
		g.forgetParts()
	}
	var own errWrite
	var mismatch *disk.MismatchError
	fault := cache.SourceFault{Fault: cache.Unreachable, Err: err}
	switch {
	case err == nil:
		return cache.TransferDone{Arrived: true}
	case errors.As(err, &mismatch) && resumed && readErr == nil:
		// The element may be right: it is read again, from the beginning.
		fault.Peer, fault.Fault = describedBy, cache.Corrupt
	case errors.As(err, &mismatch):
		fault.Fault = cache.Corrupt
	case errors.Is(err, storage.ErrNotFound):
		fault.Fault = cache.Gone
		if err := mounted(a.File, a.Replica); err != nil {
			fault.Fault, fault.Err = cache.Unreachable, err
		}
	case errors.As(err, &own), readErr == nil:
		return f.localFailure(g, key, cache.TransferDone{}, err)
	}
	return cache.TransferDone{Faults: []cache.SourceFault{fault}}
}

// mounted tells why a folder that has no such file says nothing about a
// storage element. A task's output lies three folders below the element, under its
// name; of an external file only its own folder is known.
func mounted(file task.File, replica task.Replica) error {
	at, err := url.Parse(replica.URL)
	if err != nil {
		return nil
	}
	at.Path = path.Dir(at.Path)
	external := file.Producer.IsZero()
	if !external {
		for range 3 + strings.Count(file.LFN.Local(), "/") {
			at.Path = path.Dir(at.Path)
		}
	}
	at.RawPath = ""
	return storage.Mounted(at.String(), external)
}

// read writes the replica's bytes to the file's writer; a read that broke off
// is taken up where it stopped.
func (r *seRead) read() error {
	f := r.fetcher
	if settings := f.config.Settings(); r.Replica.Site == f.config.Site && settings.SE != "" {
		// The site's own element is trusted with tokens and folders.
		if _, err := f.config.Storage.Element(settings.SE); err != nil {
			return fmt.Errorf("storage element of %s: %w: correct it with `pilotage site add`", f.config.Site, err)
		}
	}
	for try := 0; ; try++ {
		before := r.bytes
		err := r.readOn()
		var own errWrite
		if err == nil || r.fetching.ctx.Err() != nil || errors.As(err, &own) || r.bytes == before || try >= reopenings || !storage.Temporary(err) {
			return err
		}
	}
}

func (r *seRead) readOn() error {
	content, size, err := r.fetcher.config.Storage.OpenReplica(r.fetching.ctx, r.Replica.URL, int64(r.offset))
	if err != nil {
		return err
	}
	defer content.Close()
	if want := r.File.Size; want >= 0 && size >= 0 && task.Bytes(size) != want {
		return r.wrongSize(task.Bytes(size))
	}
	if r.fetching.writer == nil {
		if r.fetching.writer, err = r.fetcher.config.Cache.Create(r.File.Key(), max(task.Bytes(size), r.File.Size)); err != nil {
			return errWrite{err}
		}
	}
	buffer := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buffer)
	for {
		n, err := content.Read(*buffer)
		if n > 0 {
			if err := r.write((*buffer)[:n]); err != nil {
				return err
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

func (r *seRead) write(part []byte) error {
	end := r.offset + task.Bytes(len(part))
	if want := r.File.Size; want >= 0 && end > want { // from an element that announced no size
		return r.wrongSize(end)
	}
	if _, err := r.fetching.writer.WriteAt(part, int64(r.offset)); err != nil {
		return errWrite{err}
	}
	r.offset = end
	r.bytes += task.Bytes(len(part))
	if now := time.Now(); now.Sub(r.shown) >= progressEvery {
		r.shown = now
		r.fetcher.tell(cache.Progress{Transfer: r.Transfer})
	}
	return nil
}

func (r *seRead) wrongSize(got task.Bytes) error {
	return &disk.MismatchError{Key: r.File.Key(), What: "size", Want: fmt.Sprint(int64(r.File.Size)), Got: fmt.Sprint(int64(got))}
}

// keepShowing shows progress of a transfer until stopped: publishing reads a large file
// once more, and the grant must last until others can be pointed here.
func (f *Fetcher) keepShowing(transfer uint64) (stop func()) {
	ticker, ended := time.NewTicker(progressEvery), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-ticker.C:
				f.tell(cache.Progress{Transfer: transfer})
			case <-ended:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(ended)
		group.Wait()
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
