package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/internal/filelock"
	"github.com/pilotage-grid/pilotage/task"
)

// Open takes the cache folder of a pilot, creating it if needed, and recovers
// what an earlier process left there, however it ended: half-written files and
// those whose metadata is damaged or does not fit are removed, then the least
// recently used until the capacity is respected. Evicted is not called for
// them, as nobody was told of them yet. A shared folder is recovered beside those who
// use it. Errors: ErrInUse.
func Open(cfg Config) (*Cache, error) { return openWith(cfg, realSystem()) }

func openWith(cfg Config, calls system) (*Cache, error) {
	dir, err := filepath.Abs(filepath.Join(cfg.Dir, cacheFolder))
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	c := &Cache{
		dir: dir, config: cfg, age: cmp.Or(cfg.VerifyAge, verifyAge), log: cfg.Log, boot: bootID(), system: calls,
		files: map[task.FileKey]*stored{}, names: map[task.FileKey]task.FileKey{},
	}
	if c.index, err = cache.NewIndex(cache.IndexConfig{Capacity: cfg.Capacity, InUse: c.usedElsewhere}); err != nil {
		return nil, err
	}
	// 0700: payloads of other users have no business in here.
	if err := os.MkdirAll(filepath.Join(dir, tempFolder), 0o700); err != nil {
		return nil, fmt.Errorf("open cache: make folder: %w", c.diskFull(err, 0))
	}
	if c.lock, err = lockFolder(dir, cfg.Shared); err != nil {
		return nil, fmt.Errorf("open cache %s: %w", dir, err)
	}
	open := c.share
	if !cfg.Shared {
		open = func() error {
			c.enter()
			defer c.leave()
			return c.recover()
		}
	}
	if err := open(); err != nil {
		return nil, errors.Join(fmt.Errorf("recover cache %s: %w", dir, err), c.lock.Close())
	}
	return c, nil
}

// Lock makes a folder its caller's until the file is closed, as a cache in it does.
// Errors: ErrInUse.
func Lock(dir string) (*os.File, error) {
	dir = filepath.Join(dir, cacheFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return lockFolder(dir, false)
}

// lockFolder makes a cache folder its caller's until the file is closed, or that of all
// who share it.
func lockFolder(dir string, shared bool) (lock *os.File, err error) {
	if path := filepath.Join(dir, lockFile); shared {
		lock, err = filelock.OpenShared(path, os.O_RDWR|os.O_CREATE)
	} else {
		lock, err = filelock.Open(path, os.O_RDWR|os.O_CREATE, false)
	}
	if errors.Is(err, filelock.ErrHeld) {
		err = ErrInUse
	}
	return lock, err
}

// Abandoned tells whether dir has had a cache for a minute at least that no process
// owns. What remove does is done while nobody can open the cache.
func Abandoned(dir string, remove func() error) (bool, error) {
	path := filepath.Join(dir, cacheFolder, lockFile)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < time.Minute { // it is being opened
		return false, nil
	}
	lock, err := filelock.Open(path, os.O_RDWR, false)
	if err != nil {
		return false, nil //nolint:nilerr // somebody owns it, or it is not ours to look at
	}
	return true, errors.Join(remove(), lock.Close())
}

// bootID identifies this run of the kernel; "" if it cannot be read, which
// equals no boot, so that recovery then trusts only what was flushed.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// found is a whole file that recovery met.
type found struct {
	file *stored
	used time.Time
}

func (c *Cache) recover() error {
	if c.shared == nil {
		if err := emptyFolder(filepath.Join(c.dir, tempFolder)); err != nil {
			return err
		}
	}
	folders, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var all []found
	for _, folder := range folders {
		if folder.IsDir() && len(folder.Name()) == 2 {
			some, err := c.recoverFolder(filepath.Join(c.dir, folder.Name()))
			if err != nil {
				return err
			}
			all = append(all, some...)
		}
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(string(a.file.Key), string(b.file.Key)))
	})
	for _, one := range all {
		if err := c.index.Restore(one.file.Key, one.file.Size, one.file.Sole()); err != nil {
			return err
		}
		c.list(one.file)
	}
	c.forget(c.index.Shed())
	c.lost.keys = nil
	return nil
}

// list takes a file into memory.
func (c *Cache) list(f *stored) {
	c.files[f.Key] = f
	for _, name := range f.Names {
		c.names[name] = f.Key
	}
}

// recoverFolder returns the whole files of one subfolder and removes
// everything else in it.
func (c *Cache) recoverFolder(folder string) ([]found, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var whole []found
	keep := map[string]bool{}
	for _, entry := range entries {
		digest, isMeta := strings.CutSuffix(entry.Name(), metaSuffix)
		if !isMeta {
			continue
		}
		file, used, err := c.recoverFile(filepath.Join(folder, digest))
		if err != nil {
			c.log.Warn("cached file is not usable and is removed", "path", filepath.Join(folder, digest), "reason", err)
			c.noteAll()
			continue
		}
		keep[digest], keep[entry.Name()] = true, true
		whole = append(whole, found{file, used})
	}
	for _, entry := range entries {
		if !keep[entry.Name()] {
			if err := os.RemoveAll(filepath.Join(folder, entry.Name())); err != nil {
				return nil, err
			}
		}
	}
	return whole, nil
}

// recoverFile tells whether content and metadata of one file belong together.
func (c *Cache) recoverFile(path string) (*stored, time.Time, error) {
	f, used, err := readStored(c.dir, path, c.self())
	if err != nil {
		return nil, used, err
	}
	if !f.synced && (f.boot == "" || f.boot != c.boot) {
		if err := compareFile(context.Background(), path, f.Entry); err != nil {
			return nil, used, err
		}
		f.boot, f.seen = c.boot, time.Now()
		c.rewriteMetadata(f)
		_ = os.Chtimes(path+metaSuffix, time.Time{}, used) // an order for eviction only
	}
	return f, used, nil
}

// readStored reads what the metadata says of the content at a path. On an error
// beyond the metadata it returns the file as well.
func readStored(dir, path string, self int) (*stored, time.Time, error) {
	meta, used, err := readMetadata(path + metaSuffix)
	if err != nil {
		return nil, used, fmt.Errorf("metadata: %w", err)
	}
	f := meta.stored(self)
	if contentPath(dir, meta.Digest) != path {
		return f, used, fmt.Errorf("metadata is that of %s", meta.Digest)
	}
	info, err := os.Lstat(path)
	if err == nil {
		if reason := f.changed(info); reason != "" {
			err = errors.New(reason)
		}
	}
	return f, used, err
}

func readMetadata(path string) (metadata, time.Time, error) {
	file, err := os.Open(path)
	if err != nil {
		return metadata{}, time.Time{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return metadata{}, time.Time{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxMetadata {
		return metadata{}, time.Time{}, fmt.Errorf("it is not a file of at most %d bytes", maxMetadata)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxMetadata))
	if err != nil {
		return metadata{}, time.Time{}, err
	}
	meta, err := decodeMetadata(data)
	return meta, info.ModTime(), err
}

// changed says how content on disk differs from what was published, "" if not
// at all. It looks at size and time only.
func (f *stored) changed(info fs.FileInfo) string {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Sprintf("it is no longer a regular file but %s", info.Mode().Type())
	case task.Bytes(info.Size()) != f.Size:
		return fmt.Sprintf("it has %d bytes, %d were published", info.Size(), f.Size)
	case info.ModTime().UnixNano() != f.modified:
		return fmt.Sprintf("it was modified at %s", info.ModTime().UTC().Format(time.RFC3339Nano))
	}
	return ""
}

func emptyFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(folder, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
