package bench

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/task"
)

// memoryCache is a cache of files without bytes, on the index that the one on
// disk has: room, pins, sole copies and eviction are the same. All files have
// one size. It is safe for use by many goroutines.
type memoryCache struct {
	size    task.Bytes
	evicted func([]task.FileKey)

	mutex sync.Mutex
	index *cache.Index
	files map[task.FileKey]*disk.Entry // by digest key
}

func newMemoryCache(capacity, size task.Bytes, evicted func([]task.FileKey)) (*memoryCache, error) {
	// Capacities are counted in files: all of it is used before one is evicted.
	index, err := cache.NewIndex(cache.IndexConfig{Capacity: capacity, HighWater: 1, LowWater: 1})
	if err != nil {
		return nil, err
	}
	return &memoryCache{size: size, evicted: evicted, index: index, files: make(map[task.FileKey]*disk.Entry)}, nil
}

// Lookup satisfies agent.Cache.
func (c *memoryCache) Lookup(key task.FileKey) (disk.Entry, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	entry := c.files[key]
	if entry == nil {
		return disk.Entry{}, false
	}
	return *entry, true
}

// Entries satisfies agent.Cache.
func (c *memoryCache) Entries() []disk.Entry {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	entries := make([]disk.Entry, 0, len(c.files))
	for _, entry := range c.files {
		entries = append(entries, *entry)
	}
	slices.SortFunc(entries, func(a, b disk.Entry) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return entries
}

// Usage satisfies agent.Cache.
func (c *memoryCache) Usage() disk.Usage {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	u := c.index.Usage()
	return disk.Usage{
		Capacity: u.Capacity, Used: u.Used, Reserved: u.Reserved, Pinned: u.Pinned, Sole: u.Sole, Files: u.Files, Evictions: u.Evictions,
	}
}

// Adopt satisfies agent.Cache. The content of a file is its path, which names
// the attempt: two attempts never make the same file.
func (c *memoryCache) Adopt(_ context.Context, folder, name string, exec bool, outputs ...task.OutputID) (disk.Entry, error) {
	path := filepath.Join(folder, name)
	digest := task.Digest(sha256.Sum256([]byte(path)))
	entry := disk.Entry{Key: task.KeyOf("", digest), Size: c.size, Digest: digest, Exec: exec, Outputs: outputs}
	if _, err := c.insert(entry, false); err != nil {
		return disk.Entry{}, fmt.Errorf("take %s into the cache: %w", path, err)
	}
	return entry, nil
}

// insert takes a file in; pinned, it stays until unpin. It tells whether the
// file is new.
func (c *memoryCache) insert(entry disk.Entry, pinned bool) (fresh bool, err error) {
	c.mutex.Lock()
	var lost []task.FileKey
	if fresh = c.files[entry.Key] == nil; fresh {
		if lost, err = c.index.Insert(entry.Key, entry.Size, entry.Sole()); err == nil {
			c.files[entry.Key] = &entry
			c.forget(lost)
		}
	}
	if err == nil && pinned {
		err = c.index.Pin(entry.Key)
	}
	c.mutex.Unlock()
	c.tell(lost)
	return fresh, err
}

// pin finds a file and keeps it until unpin.
func (c *memoryCache) pin(key task.FileKey) (disk.Entry, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	entry := c.files[key]
	if entry == nil || c.index.Pin(key) != nil {
		return disk.Entry{}, false
	}
	return *entry, true
}

func (c *memoryCache) unpin(key task.FileKey) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.files[key] != nil {
		_ = c.index.Unpin(key) // fails for a file that was dropped and came back
	}
}

// Keep satisfies agent.Cache.
func (c *memoryCache) Keep(key task.FileKey, output task.OutputID) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	entry := c.files[key]
	if entry == nil {
		return fmt.Errorf("keep %s: %w", key, disk.ErrNotCached)
	}
	if slices.Contains(entry.Outputs, output) {
		return nil
	}
	entry.Outputs = append(slices.Clone(entry.Outputs), output)
	return c.index.MarkSole(key)
}

// LetGo satisfies agent.Cache.
func (c *memoryCache) LetGo(key task.FileKey, output task.OutputID) {
	c.mutex.Lock()
	var lost []task.FileKey
	if entry := c.files[key]; entry != nil && entry.Sole() {
		entry.Outputs = slices.DeleteFunc(slices.Clone(entry.Outputs), func(o task.OutputID) bool { return o == output })
		if !entry.Sole() && c.index.MarkStored(key) == nil {
			lost = c.index.Shed()
			c.forget(lost)
		}
	}
	c.mutex.Unlock()
	c.tell(lost)
}

// Drop satisfies agent.Cache.
func (c *memoryCache) Drop(key task.FileKey) error {
	c.mutex.Lock()
	if c.files[key] == nil {
		c.mutex.Unlock()
		return fmt.Errorf("drop %s: %w", key, disk.ErrNotCached)
	}
	err := c.index.Remove(key)
	lost := []task.FileKey{key}
	c.forget(lost)
	c.mutex.Unlock()
	c.tell(lost)
	return err
}

// Evict satisfies agent.Cache.
func (c *memoryCache) Evict(key task.FileKey) bool {
	c.mutex.Lock()
	var lost []task.FileKey
	if c.index.Evict(key) {
		lost = []task.FileKey{key}
		c.forget(lost)
	}
	c.mutex.Unlock()
	c.tell(lost)
	return len(lost) > 0
}

func (c *memoryCache) forget(lost []task.FileKey) {
	for _, key := range lost {
		delete(c.files, key)
	}
}

// tell says what is gone, without the lock.
func (c *memoryCache) tell(lost []task.FileKey) {
	if len(lost) > 0 {
		c.evicted(lost)
	}
}
