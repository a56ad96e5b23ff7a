package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

const (
	// verifyAge: disks that rot do so over weeks, and a day costs one reading of
	// each file in use.
	verifyAge = 24 * time.Hour
	// scrubPause is how long Scrub sleeps at most: for files that came meanwhile,
	// and when there is nothing to read.
	scrubPause = time.Minute
)

// errOther tells that content is not what was published.
type errOther struct{ got content }

func (e errOther) Error() string { return fmt.Sprintf("its content has digest %s", e.got.digest) }

// compareFile reads the whole content at a path and compares it with digest and
// manifest.
func compareFile(ctx context.Context, path string, with Entry) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return compareContent(ctx, file, with)
}

func compareContent(ctx context.Context, file io.ReaderAt, with Entry) error {
	got, err := digestContent(ctx, file, with.Size, false)
	if err == nil && (got.digest != with.Digest || !got.manifest.Equal(with.Manifest)) {
		err = errOther{got}
	}
	return err
}

// Verify compares the content with its digest, unless that was done within the
// configured age; several callers wait for one reading. Size and time of a file
// stay the same when a disk rots, so whoever gives bytes to a payload calls it
// first. Errors: *CorruptError (the file is dropped), ErrNotCached when it was
// dropped since it was pinned, the context's.
func (p *Pinned) Verify(ctx context.Context) error {
	if err := p.file.await(ctx); err != nil {
		return err
	}
	defer p.file.finished()
	if p.Fresh() {
		return nil
	}
	return p.cache.verify(ctx, p.file, asFast)
}

// Fresh tells whether Verify would return at once and without error.
func (p *Pinned) Fresh() bool {
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	return p.cache.files[p.Key] == p.file && p.cache.fresh(p.file)
}

// fresh tells whether the content was found whole a short time ago.
func (c *Cache) fresh(f *stored) bool {
	return !f.seen.IsZero() && time.Since(f.seen) < c.age
}

// Verify reads a whole file and compares it with its digest, however short ago
// that was done. Errors: *CorruptError (the file is dropped), ErrNotCached,
// ErrClosed.
func (c *Cache) Verify(key task.FileKey) error {
	c.mu.Lock()
	f, closed := c.find(key), c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return fmt.Errorf("verify %s: cache %w", key, ErrClosed)
	case f == nil:
		return fmt.Errorf("verify %s: %w", key, ErrNotCached)
	}
	if err := f.await(context.Background()); err != nil {
		return err
	}
	defer f.finished()
	return c.verify(context.Background(), f, asFast)
}

// await begins to compare a file's content, once nobody else does.
func (f *stored) await(ctx context.Context) error {
	f.awaited.Add(1)
	defer f.awaited.Add(-1)
	select {
	case f.reading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *stored) finished() { <-f.reading }

func asFast(_ context.Context, file *os.File) io.ReaderAt { return file }

// verify reads a file and drops it when it is damaged. What is removed
// meanwhile can be read to its end, so nothing is pinned. The caller has called
// await.
func (c *Cache) verify(ctx context.Context, f *stored, through func(context.Context, *os.File) io.ReaderAt) error {
	c.mu.Lock()
	entry := f.Entry // its outputs change meanwhile
	c.mu.Unlock()
	path := c.contentPath(entry.Digest)
	file, err := os.Open(path)
	if err == nil {
		defer file.Close()
		err = compareContent(ctx, through(ctx, file), entry)
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("verify %s: %w", f.Key, err) // for want of file descriptors, say
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.enter()
	defer c.leave()
	if c.files[f.Key] != f {
		return fmt.Errorf("verify %s: %w", f.Key, ErrNotCached)
	}
	c.verified++
	damage := c.damage(f)
	if damage == nil && err == nil {
		f.seen = time.Now()
		return nil
	}
	if damage == nil {
		damage = &CorruptError{Key: f.Key, Path: path, Reason: err.Error()}
	}
	c.damaged++
	c.drop(f)
	return damage
}

// Scrub verifies files that were not verified for long, the longest first, at a
// rate of so many bytes a second, until ctx ends. Damaged ones are dropped as
// Verify does, so that nobody is sent here for them.
func (c *Cache) Scrub(ctx context.Context, rate task.Bytes) error {
	for ctx.Err() == nil {
		f := c.stalest()
		if f == nil || !c.scrubs() {
			wait(ctx, scrubPause)
			continue
		}
		if f.await(ctx) != nil {
			return nil
		}
		err := c.verify(ctx, f, func(ctx context.Context, file *os.File) io.ReaderAt {
			return &pacedReader{ctx, file, &f.awaited, rate}
		})
		f.finished()
		if corrupt := (*CorruptError)(nil); errors.As(err, &corrupt) {
			c.log.Warn("a cached file has rotted on the disk", "file", f.Key, "error", err)
		} else if err != nil && !errors.Is(err, ErrNotCached) && ctx.Err() == nil {
			c.log.Warn("a cached file cannot be verified", "file", f.Key, "error", err)
			wait(ctx, scrubPause)
		}
	}
	return nil
}

// stalest is the file that was verified the longest ago; nil if all are fresh.
func (c *Cache) stalest() *stored {
	c.mu.Lock()
	defer c.mu.Unlock()
	var stalest *stored
	for _, f := range c.files {
		if c.fresh(f) {
			continue
		}
		if stalest == nil || f.seen.Before(stalest.seen) || f.seen.Equal(stalest.seen) && f.Key < stalest.Key {
			stalest = f
		}
	}
	return stalest
}

// pacedReader leaves the disk to others for most of the time, unless somebody
// waits for the file.
type pacedReader struct {
	ctx     context.Context
	file    *os.File
	awaited *atomic.Int32
	rate    task.Bytes // bytes a second
}

func (r *pacedReader) ReadAt(p []byte, offset int64) (int, error) {
	n, err := r.file.ReadAt(p, offset)
	if r.awaited.Load() == 0 {
		wait(r.ctx, time.Duration(n)*time.Second/time.Duration(r.rate))
	}
	return n, err
}

func wait(ctx context.Context, span time.Duration) {
	select {
	case <-time.After(span):
	case <-ctx.Done():
	}
}

// Examined is what Examine has found of one file.
type Examined struct {
	Path    string
	Size    task.Bytes // as published; 0 when the metadata cannot be read
	Damage  string     // what is wrong; empty when all is well
	Outputs int        // that no storage element has
}

// Examine compares every file in a pilot's folder with its digest and changes
// nothing: the next pilot there does away with what is damaged. No pilot may
// run on the folder. Errors: ErrInUse, os.ErrNotExist where no cache is.
func Examine(ctx context.Context, dir string) ([]Examined, error) {
	dir, err := filepath.Abs(filepath.Join(dir, cacheFolder))
	if err != nil {
		return nil, fmt.Errorf("examine cache: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, tempFolder)); err != nil {
		return nil, fmt.Errorf("examine cache: %w", err)
	}
	lock, err := lockFolder(dir, false)
	if err != nil {
		return nil, fmt.Errorf("examine cache %s: %w", dir, err)
	}
	defer lock.Close()
	paths, err := filepath.Glob(filepath.Join(dir, "??", "*"+metaSuffix))
	if err != nil {
		return nil, err
	}
	all := make([]Examined, 0, len(paths))
	for _, path := range paths {
		path = strings.TrimSuffix(path, metaSuffix)
		one := Examined{Path: path}
		f, _, err := readStored(dir, path, alone)
		if f != nil {
			one.Size, one.Outputs = f.Size, len(f.Outputs)
		}
		if err == nil {
			err = compareFile(ctx, path, f.Entry)
		}
		if err != nil {
			one.Damage = err.Error()
		}
		if ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
		all = append(all, one)
	}
	return all, nil
}
