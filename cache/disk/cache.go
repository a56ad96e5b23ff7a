package disk

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/task"
)

// Config of a Cache.
type Config struct {
	Dir string // the cache lives in its subfolder "cache"
	// Shared tells that other pilots of this node have the same folder open.
	Shared   bool
	Capacity task.Bytes // of all files and reservations; see DefaultCapacity
	// Evicted, if set, is told which keys the cache no longer has: evicted,
	// dropped or damaged files under each key by which they were reachable. It
	// is called without locks, possibly from several goroutines at once and
	// after the same file came back: look it up before withdrawing it.
	Evicted func(keys []task.FileKey)
	// Brought, if set, is told of files that another pilot has brought into a shared
	// folder, and of those that are this one's to keep now, as the pilot that kept them
	// is gone. It is called as Evicted is.
	Brought func(files []Entry)
	// VerifyAge is how long content counts as whole after it was read and
	// compared with its digest; 24 h when zero. Nothing counts after Open.
	VerifyAge time.Duration
	Log       *slog.Logger // nil: slog.Default()
}

// Entry describes a cached file.
type Entry struct {
	Key      task.FileKey // its digest's, whatever it was asked for by
	Size     task.Bytes
	Digest   task.Digest
	Manifest Manifest
	Names    []task.FileKey // "lfn:" keys by which it is reachable too
	Exec     bool           // mode 0555, else 0444
	// Outputs are what the file was made as and no storage element has yet; it
	// stays while there are any. Others are those that other pilots keep here.
	Outputs, Others []task.OutputID
}

// Sole tells whether the file must not be evicted.
func (e *Entry) Sole() bool { return len(e.Outputs)+len(e.Others) > 0 }

// Usage is where the bytes of the cache are. A file that is pinned and a sole
// copy counts in both.
type Usage struct {
	Sharers                                int // pilots that have the folder, this one with them
	Capacity, Used, Reserved, Pinned, Sole task.Bytes
	Files                                  int
	Evictions                              uint64 // since Open
	Verified, Damaged                      uint64 // files read again and compared, and those of them dropped, since Open
}

// Cache is a folder of immutable files. Safe for concurrent use.
type Cache struct {
	dir    string // absolute, with the last element "cache"
	config Config
	age    time.Duration // Config.VerifyAge
	log    *slog.Logger
	lock   *os.File
	boot   string
	system system
	serial atomic.Uint64 // of temporary names
	shared *sharing      // nil where the folder is this cache's alone

	// mu guards all below. Publication and removal on disk are between enter and leave.
	mu     sync.Mutex
	closed bool
	index  *cache.Index
	files  map[task.FileKey]*stored      // by digest key
	names  map[task.FileKey]task.FileKey // "lfn:" key to digest key
	lost   losses

	verified, damaged uint64 // see Usage
}

// stored is a file of the cache. Its fields change under Cache.mu only.
type stored struct {
	Entry
	seen     time.Time     // when its content was last found whole; zero if not since Open
	reading  chan struct{} // has a token while its content is compared
	awaited  atomic.Int32  // who waits for that
	modified int64         // ns since 1970, as on disk
	boot     string
	synced   bool
	keepers  []int // of Others: see sharing
}

// system are the two calls whose failure or interruption tests bring about.
type system struct {
	openTemp func(path string) (*os.File, error)
	rename   func(from, to string) error
}

func realSystem() system {
	return system{
		openTemp: func(path string) (*os.File, error) {
			return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		},
		rename: os.Rename,
	}
}

const (
	cacheFolder = "cache"
	tempFolder  = "tmp"
	lockFile    = "lock"
	metaSuffix  = ".json"
)

// Lookup tells whether the file is cached. It is no use in the sense of
// eviction order, and the answer may be outdated at once: Pin to rely on it.
func (c *Cache) Lookup(key task.FileKey) (Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.find(key)
	if f == nil {
		return Entry{}, false
	}
	return f.snapshot(), true
}

// Entries lists all files in the order of their keys.
func (c *Cache) Entries() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries := make([]Entry, 0, len(c.files))
	for _, f := range c.files {
		entries = append(entries, f.snapshot())
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return entries
}

// Usage returns the counts of the moment.
func (c *Cache) Usage() Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.index.Usage()
	sharers := 1
	if c.shared != nil {
		sharers = c.shared.sharers
	}
	return Usage{
		Sharers: sharers, Capacity: u.Capacity, Used: u.Used, Reserved: u.Reserved, Pinned: u.Pinned, Sole: u.Sole,
		Files: u.Files, Evictions: u.Evictions, Verified: c.verified, Damaged: c.damaged,
	}
}

// Keep has a file stay until LetGo is told of the same output. Errors:
// ErrNotCached.
func (c *Cache) Keep(key task.FileKey, output task.OutputID) error {
	c.enter()
	defer c.leave()
	f := c.find(key)
	if f == nil {
		return fmt.Errorf("keep %s: %w", key, ErrNotCached)
	}
	if c.keep(f, output) {
		c.rewriteMetadata(f)
	}
	return nil
}

// keep notes outputs that a file is and tells whether that is new.
func (c *Cache) keep(f *stored, outputs ...task.OutputID) (changed bool) {
	for _, output := range outputs {
		if slices.Contains(f.Outputs, output) {
			continue
		}
		if !f.Sole() {
			agree(c.log, f.Key, c.index.MarkSole(f.Key))
		}
		f.Outputs = append(slices.Clone(f.Outputs), output)
		changed = true
	}
	return changed
}

// LetGo notes that an output need not be kept: a storage element has it,
// another pilot keeps it, or nobody wants it. The file may be evicted when it
// is no other output. What is unknown is ignored: it left before.
func (c *Cache) LetGo(key task.FileKey, output task.OutputID) {
	c.enter()
	defer c.leave()
	f := c.find(key)
	if f == nil || !slices.Contains(f.Outputs, output) {
		return
	}
	f.Outputs = slices.DeleteFunc(slices.Clone(f.Outputs), func(o task.OutputID) bool { return o == output })
	if !f.Sole() {
		agree(c.log, f.Key, c.index.MarkStored(f.Key))
	}
	c.rewriteMetadata(f)
	c.forget(c.index.Shed())
}

// Drop removes a file because it is damaged or withdrawn, pinned or not;
// holders of pins keep what they have opened or linked. Errors: ErrNotCached.
func (c *Cache) Drop(key task.FileKey) error {
	c.enter()
	defer c.leave()
	f := c.find(key)
	if f == nil {
		return fmt.Errorf("drop %s: %w", key, ErrNotCached)
	}
	c.drop(f)
	return nil
}

// Evict removes a file before its turn and tells whether it could: what is
// pinned, or an output that no storage element has, stays.
func (c *Cache) Evict(key task.FileKey) bool {
	c.enter()
	defer c.leave()
	f := c.find(key)
	if f == nil || !c.index.Evict(f.Key) {
		return false
	}
	c.forget([]task.FileKey{f.Key})
	return true
}

// Close gives the folder up. Files stay for the next Open; unfinished Writers
// can no longer publish.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.shared != nil {
		return errors.Join(c.shared.close(), c.lock.Close()) // those who stay tidy up
	}
	err := emptyFolder(filepath.Join(c.dir, tempFolder))
	return errors.Join(err, c.lock.Close())
}

func (c *Cache) find(key task.FileKey) *stored {
	if digestKey, found := c.names[key]; found {
		key = digestKey
	}
	return c.files[key]
}

func (f *stored) snapshot() Entry {
	entry := f.Entry
	entry.Names, entry.Outputs, entry.Others = slices.Clone(f.Names), slices.Clone(f.Outputs), slices.Clone(f.Others)
	return entry
}

func (c *Cache) contentPath(digest task.Digest) string { return contentPath(c.dir, digest) }

func contentPath(dir string, digest task.Digest) string {
	name := digest.String()
	return filepath.Join(dir, name[:2], name)
}

// tempPath is a new path in the folder of temporary files, which is made again if somebody
// has cleaned up.
func (c *Cache) tempPath() (string, error) {
	name := strconv.FormatUint(c.serial.Add(1), 10)
	if c.shared != nil {
		name = tempPrefix(c.shared.self) + name
	}
	folder := filepath.Join(c.dir, tempFolder)
	return filepath.Join(folder, name), os.MkdirAll(folder, 0o700)
}

// losses are files that the cache has forgotten since enter: their content waits in
// the temporary folder to be removed by leave, their keys to be told.
type losses struct {
	paths []string
	keys  []task.FileKey
}

// forget takes files that the index has forgotten out of sight. Metadata goes
// first, so that an interruption leaves content that recovery removes. The
// content itself is removed by leave, without the lock, since freeing a large
// file takes the file system a while.
func (c *Cache) forget(keys []task.FileKey) {
	for _, key := range keys {
		f := c.files[key]
		c.note(fileChanged, f.Digest)
		c.lost.keys = append(c.lost.keys, c.unlist(f)...)
		content := c.contentPath(f.Digest)
		err := removeIfThere(content + metaSuffix)
		leaving, moveErr := c.tempPath()
		if moveErr == nil {
			moveErr = os.Rename(content, leaving)
		}
		if moveErr == nil {
			c.lost.paths = append(c.lost.paths, leaving)
		} else if !errors.Is(moveErr, os.ErrNotExist) {
			err = errors.Join(err, moveErr, removeIfThere(content))
		}
		if err != nil {
			c.log.Warn("cannot remove a cached file: its bytes are no longer counted", "file", key, "error", err)
		}
	}
}

// unlist takes a file out of memory and returns its keys.
func (c *Cache) unlist(f *stored) []task.FileKey {
	delete(c.files, f.Key)
	for _, name := range f.Names {
		delete(c.names, name)
	}
	return append([]task.FileKey{f.Key}, f.Names...)
}

// agree tells of an error of the index, which then has not what the files are.
func agree(log *slog.Logger, key task.FileKey, err error) {
	if err != nil {
		log.Error("cache index and files disagree", "file", key, "error", err)
	}
}

// drop removes one file from index and disk.
func (c *Cache) drop(f *stored) {
	agree(c.log, f.Key, c.index.Remove(f.Key))
	c.forget([]task.FileKey{f.Key})
}

// finish frees the room of forgotten files and tells who wants to know.
func (c *Cache) finish(lost losses) {
	for _, path := range lost.paths {
		if err := removeIfThere(path); err != nil {
			c.log.Warn("cannot remove an evicted file", "path", path, "error", err)
		}
	}
	if len(lost.keys) > 0 && c.config.Evicted != nil {
		c.config.Evicted(lost.keys)
	}
}

// rewriteMetadata brings changed attributes to the disk. A failure costs no
// data: after a restart the old attributes hold, which are the cautious ones.
func (c *Cache) rewriteMetadata(f *stored) {
	c.note(fileChanged, f.Digest)
	temp, err := c.tempPath()
	if err == nil {
		err = writeMetadata(temp, f.metadata(c.self()))
	}
	if err == nil {
		err = os.Rename(temp, c.contentPath(f.Digest)+metaSuffix)
	}
	if err != nil {
		c.log.Warn("cannot update the metadata of a cached file", "file", f.Key, "error", errors.Join(err, removeIfThere(temp)))
	}
}

// touchMetadata keeps the time of last use where recovery finds it. It is an
// order for eviction only, so a failure is not worth a word.
func (c *Cache) touchMetadata(f *stored) {
	c.note(fileUsed, f.Digest)
	_ = os.Chtimes(c.contentPath(f.Digest)+metaSuffix, time.Time{}, time.Now())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
