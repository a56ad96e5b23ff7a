package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/task"
)

// Staged is an input in the cache, kept there until Release.
type Staged struct {
	File   task.File
	Path   string // of the content, to be linked or opened read-only
	Entry  disk.Entry
	Source task.Source
	// Release ends the pin; again, it has no effect.
	Release func()
}

// Stage brings all inputs of a task into the cache and pins them, in the order
// of the files. On an error nothing stays pinned; it is a cache.FetchErrors, that of
// the context, or ErrStopped.
func (f *Fetcher) Stage(ctx context.Context, files []task.File) ([]Staged, error) {
	results := make(chan delivery, len(files))
	var waiters []uint64 // of Run's goroutine
	err := f.do(func() {
		for i, file := range files {
			waiters = append(waiters, f.want(&wish{index: i, file: file, results: results}))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("stage %d files: %w", len(files), err)
	}
	staged := make([]Staged, len(files))
	if err = f.collect(ctx, files, results, staged); err == nil {
		return staged, nil
	}
	f.withdraw(func() []uint64 { return waiters })
	for len(results) > 0 {
		if d := <-results; d.pinned != nil {
			d.pinned.Release()
		}
	}
	for _, s := range staged {
		if s.Release != nil {
			s.Release()
		}
	}
	return nil, fmt.Errorf("stage %d files: %w", len(files), err)
}

// want feeds one wish to the plan and returns the number of its waiter. What is
// cached is compared with its digest first where that was not done lately.
func (f *Fetcher) want(w *wish) uint64 {
	f.serial++
	waiter := f.serial
	f.wishes[waiter] = w
	pinned, err := f.config.Cache.Pin(w.file.Key())
	if err != nil || pinned.Fresh() {
		f.plan(waiter, pinned, err)
		return waiter
	}
	f.spawn(func() func() {
		err := pinned.Verify(f.ctx)
		if err != nil {
			pinned.Release()
		}
		return func() { f.plan(waiter, pinned, err) }
	})
	return waiter
}

// plan goes on with a wish once it is known whether the cache has the file.
func (f *Fetcher) plan(waiter uint64, pinned *disk.Pinned, err error) {
	w := f.wishes[waiter]
	var corrupt *disk.CorruptError
	switch {
	case w == nil: // withdrawn meanwhile
		if err == nil {
			pinned.Release()
		}
		return
	case err == nil:
		w.pinned = pinned
	case errors.As(err, &corrupt):
		f.log.Warn("a cached file is damaged and is fetched again", "file", w.file.Key(), "lfn", w.file.LFN, "error", err)
	case !errors.Is(err, disk.ErrNotCached):
		f.fulfil(waiter, delivery{err: &cache.FetchError{File: w.file, Local: err}})
		return
	}
	f.step(cache.Want{File: w.file, Waiter: waiter, Cached: err == nil, Remote: f.config.Settings().RemoteRead})
}

// collect waits for all files, or for the first failure and a little longer.
func (f *Fetcher) collect(ctx context.Context, files []task.File, results <-chan delivery, staged []Staged) error {
	var failures cache.FetchErrors
	var enough <-chan time.Time
	for range files {
		select {
		case d := <-results:
			if d.err == nil {
				staged[d.index] = Staged{
					File: files[d.index], Path: d.pinned.Path, Entry: d.pinned.Entry, Source: d.source, Release: d.pinned.Release,
				}
				continue
			}
			failures = append(failures, d.err)
			if enough == nil {
				timer := time.NewTimer(cache.FailureGrace)
				defer timer.Stop()
				enough = timer.C
			}
			continue
		case <-enough:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.done:
			return ErrStopped
		}
		break
	}
	if len(failures) == 0 {
		return nil
	}
	slices.SortFunc(failures, func(a, b *cache.FetchError) int { return strings.Compare(string(a.File.LFN), string(b.File.LFN)) })
	return failures
}

// withdraw takes wishes back. When it returns, nothing more is delivered.
func (f *Fetcher) withdraw(waiters func() []uint64) {
	withdrawn := make(chan struct{})
	err := f.do(func() {
		for _, waiter := range waiters() {
			if w := f.wishes[waiter]; w != nil {
				delete(f.wishes, waiter)
				f.step(cache.Cancelled{Waiter: waiter})
			}
		}
		close(withdrawn)
	})
	if err != nil {
		return // Run has ended
	}
	select {
	case <-withdrawn:
	case <-f.done:
	}
}
