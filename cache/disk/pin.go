package disk

import (
	"errors"
	"fmt"
	"os"

	"github.com/pilotage-grid/pilotage/task"
)

// Pinned holds a file in the cache until Release.
type Pinned struct {
	Entry
	// Path of the content, to be linked or opened read-only. Whoever links it
	// shares the inode: calling Check afterwards finds out about changes.
	Path string

	cache    *Cache
	file     *stored
	released bool // guarded by cache.mu
}

// Pin keeps a file from eviction until Release and counts as a use of it. It
// looks at size and modification time first; a file that was changed is
// dropped. Whoever trusts the bytes calls Verify next. Errors: ErrNotCached,
// *CorruptError, ErrClosed.
func (c *Cache) Pin(key task.FileKey) (*Pinned, error) {
	c.enter()
	defer c.leave()
	f := c.find(key)
	switch {
	case c.closed:
		return nil, fmt.Errorf("pin %s: cache %w", key, ErrClosed)
	case f == nil:
		return nil, fmt.Errorf("pin %s: %w", key, ErrNotCached)
	}
	if damage := c.damage(f); damage != nil {
		c.drop(f)
		return nil, fmt.Errorf("pin %s: %w", key, damage)
	}
	return c.pinLocked(f), nil
}

func (c *Cache) pinLocked(f *stored) *Pinned {
	agree(c.log, f.Key, c.index.Pin(f.Key))
	c.touchMetadata(f)
	c.use(f.Digest)
	return &Pinned{Entry: f.snapshot(), Path: c.contentPath(f.Digest), cache: c, file: f}
}

// damage compares size and time of the content with what was published; nil
// when they agree.
func (c *Cache) damage(f *stored) *CorruptError {
	path := c.contentPath(f.Digest)
	info, err := os.Lstat(path)
	reason := ""
	if err != nil {
		reason = err.Error()
	} else {
		reason = f.changed(info)
	}
	if reason == "" {
		return nil
	}
	return &CorruptError{Key: f.Key, Path: path, Reason: reason}
}

// Release ends the pin. Releasing again has no effect.
func (p *Pinned) Release() {
	c := p.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.released {
		return
	}
	p.released = true
	c.endUse(p.Digest)
	// A dropped file may have come back under the same key, with pins of its own.
	if c.files[p.Key] != p.file {
		return
	}
	agree(c.log, p.Key, c.index.Unpin(p.Key))
}

// Open opens the content for reading. What was opened stays readable and
// complete even if the file is dropped meanwhile. Errors: *CorruptError (the
// file is dropped), ErrNotCached when it was dropped since it was pinned.
func (p *Pinned) Open() (*os.File, error) {
	file, err := os.Open(p.Path)
	if err != nil {
		if corrupt := p.Check(); corrupt != nil {
			err = corrupt
		}
		return nil, fmt.Errorf("open %s: %w", p.Key, err)
	}
	info, err := file.Stat()
	if err == nil && p.file.changed(info) == "" {
		return file, nil
	}
	if err == nil {
		err = p.Check()
	}
	if err == nil { // replaced by an intact file between the two looks
		err = ErrNotCached
	}
	return nil, fmt.Errorf("open %s: %w", p.Key, errors.Join(err, file.Close()))
}

// Check looks again at size and modification time, for example after a payload
// ended that had the file in its work folder. A changed file is dropped and a
// *CorruptError returned; ErrNotCached when it was dropped before.
func (p *Pinned) Check() error {
	c := p.cache
	c.enter()
	defer c.leave()
	if c.files[p.Key] != p.file {
		return fmt.Errorf("check %s: %w", p.Key, ErrNotCached)
	}
	if damage := c.damage(p.file); damage != nil {
		c.drop(p.file)
		return damage
	}
	return nil
}
