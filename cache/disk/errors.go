package disk

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pilotage-grid/pilotage/task"
)

// Errors on which callers decide.
var (
	// ErrNotCached tells that the cache does not have the file.
	ErrNotCached = errors.New("not in the cache")
	// ErrExists tells that the file is in the cache or being written to it;
	// in the second case the error wraps cache.ErrReserved as well.
	ErrExists = errors.New("in the cache, or being written to it")
	// ErrClosed tells that the cache was closed, or that a Writer was
	// published or aborted before.
	ErrClosed = errors.New("closed")
	// ErrInUse tells that another process owns the cache folder.
	ErrInUse = errors.New("cache folder is in use by another process: give this pilot a folder of its own, or all pilots of the node --shared-cache")
)

// CorruptError tells that a cached file no longer is what was published: its
// content, size or modification time changed behind the cache's back. The file
// was dropped; fetch it again.
type CorruptError struct {
	Key    task.FileKey
	Path   string
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("cached file %s (%s) is damaged and was dropped: %s; it will be fetched again when needed", e.Key, e.Path, e.Reason)
}

// MismatchError tells that arriving content is not what was expected. Nothing
// of it was kept.
type MismatchError struct {
	Key  task.FileKey
	What string // "size", "digest", "adler32", "chunk 3", ...
	Want string
	Got  string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("content of %s has %s %s, expected %s: it was discarded; read it from another source, or correct what is registered", e.Key, e.What, e.Got, e.Want)
}

// FullError tells that the file system below the cache has no room, though
// the cache's own capacity would allow the file. Nothing was left behind.
type FullError struct {
	Dir  string
	Need task.Bytes
	Err  error // the system's: no space, quota, or file size limit
}

func (e *FullError) Error() string {
	return fmt.Sprintf("disk of cache folder %s has no room for %s: %v; free space there, or give the pilot a smaller cache or another folder", e.Dir, e.Need, e.Err)
}

func (e *FullError) Unwrap() error { return e.Err }

// diskFull turns the system's refusals for want of room into a FullError
// and leaves other errors as they are.
func (c *Cache) diskFull(err error, need task.Bytes) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return &FullError{Dir: c.dir, Need: need, Err: err}
	}
	return err
}
