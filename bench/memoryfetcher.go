package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/fetch"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/task"
)

// memoryFetcher brings files without bytes into a pilot's cache: from peers
// that the overlay finds, else from the storage element. That takes as long as the
// default rates say, one file after the other, as if there were bytes. There is nothing
// to be gained by asking a file's home for leave, so it does not.
type memoryFetcher struct {
	plot  *plot
	pilot agent.Enrollment

	mutex sync.Mutex
	reads task.SERead
}

// Run satisfies agent.Fetcher.
func (f *memoryFetcher) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// SEReads satisfies agent.Fetcher.
func (f *memoryFetcher) SEReads() []task.SERead {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	reads := f.reads
	f.reads = task.SERead{}
	if reads.Files == 0 {
		return nil
	}
	reads.Owner = f.pilot.Site
	return []task.SERead{reads}
}

// Stage satisfies agent.Fetcher.
func (f *memoryFetcher) Stage(ctx context.Context, files []task.File) ([]fetch.Staged, error) {
	staged := make([]fetch.Staged, len(files))
	var missing []task.FileKey
	for i, file := range files {
		if entry, here := f.plot.cache.pin(file.Key()); here {
			staged[i] = f.staged(file, entry, task.SourceLocal)
		} else {
			missing = append(missing, file.Key())
		}
	}
	failures, err := f.fetch(ctx, files, missing, staged)
	if err == nil && len(failures) == 0 {
		return staged, nil
	}
	for _, s := range staged {
		if s.Release != nil {
			s.Release()
		}
	}
	if err == nil {
		err = failures
	}
	return nil, fmt.Errorf("stage %d files: %w", len(files), err)
}

// fetch fills in what is missing.
func (f *memoryFetcher) fetch(ctx context.Context, files []task.File, missing []task.FileKey, staged []fetch.Staged) (cache.FetchErrors, error) {
	if len(missing) == 0 {
		return nil, nil
	}
	began := time.Now()
	holders, err := f.pilot.Locator.Locate(ctx, missing, nil)
	if err != nil {
		return nil, err
	}
	f.plot.yard.searched(time.Since(began))
	var failures cache.FetchErrors
	for i, file := range files {
		if staged[i].Release != nil {
			continue
		}
		entry, source, found := f.find(file, holders[file.Key()])
		if !found {
			failures = append(failures, &cache.FetchError{File: file, Lost: true})
			continue
		}
		if err := stagesIn(ctx, file, source); err != nil {
			return nil, err
		}
		fresh, err := f.plot.cache.insert(entry, true)
		if err != nil {
			failures = append(failures, &cache.FetchError{File: file, Local: err})
			continue
		}
		if fresh {
			f.plot.extra.CacheChanged(1)
			f.pilot.Cached(entry.Key)
		}
		staged[i] = f.staged(file, entry, source)
	}
	return failures, nil
}

// stagesIn lasts as long as a file takes to stage in.
func stagesIn(ctx context.Context, file task.File, source task.Source) error {
	lasts := matcher.DefaultRates().Seconds(matcher.FileInfo{Size: file.Size, Source: source})
	if !pause(ctx, time.Duration(lasts*float64(time.Second))) {
		return ctx.Err()
	}
	return nil
}

// find looks for a file at its holders, then at the storage element.
func (f *memoryFetcher) find(file task.File, holders []fetch.Holder) (disk.Entry, task.Source, bool) {
	for _, holder := range holders {
		if at := f.plot.yard.at(holder.DataURL); at != nil && at != f.plot {
			if entry, has := at.cache.Lookup(file.Key()); has {
				return disk.Entry{Key: entry.Key, Size: entry.Size, Digest: entry.Digest, Exec: entry.Exec}, task.SourcePeer, true
			}
		}
	}
	for _, replica := range file.Replicas {
		if !f.plot.yard.isStored(replica.URL) {
			continue
		}
		f.mutex.Lock()
		f.reads.Files++
		f.reads.Bytes += file.Size
		f.mutex.Unlock()
		source := task.SourceSE
		if replica.Site != f.pilot.Site {
			source = task.SourceRemote
		}
		return disk.Entry{Key: file.Key(), Size: f.plot.yard.fileSize, Digest: file.Digest, Exec: file.Exec}, source, true
	}
	return disk.Entry{}, 0, false
}

func (f *memoryFetcher) staged(file task.File, entry disk.Entry, source task.Source) fetch.Staged {
	var once sync.Once
	return fetch.Staged{
		File: file, Path: string(entry.Key), Entry: entry, Source: source,
		Release: func() { once.Do(func() { f.plot.cache.unpin(entry.Key) }) },
	}
}
