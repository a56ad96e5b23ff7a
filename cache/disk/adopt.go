package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/task"
)

// Adopt takes a payload's output, a name below its work folder, into the cache
// and publishes it under its digest. It stays until LetGo is told of each of the
// outputs given, which no storage element has; such a file is flushed to the
// disk. The file is moved where that is safe and copied otherwise (another file
// system, or further hard links by which it could change); either way it is gone
// from the folder afterwards. On an error it is still there, possibly read-only.
//
// The last element of the name must be a regular file, not a link to one; links
// before it do not lead out of the folder, also when they are exchanged
// meanwhile. What can never fit is refused before it is read: a file of holes may
// be larger than any disk. Errors: *cache.NoSpaceError, *FullError, ErrClosed, the
// context's.
func (c *Cache) Adopt(ctx context.Context, folder, name string, exec bool, outputs ...task.OutputID) (Entry, error) {
	entry, err := c.adopt(ctx, folder, name, placing{exec: exec, outputs: outputs})
	if err != nil {
		return Entry{}, fmt.Errorf("take %s into the cache: %w", filepath.Join(folder, name), err)
	}
	return entry, nil
}

func (c *Cache) adopt(ctx context.Context, folder, name string, how placing) (Entry, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return Entry{}, err
	}
	defer root.Close()
	within, err := root.Open(filepath.Dir(name))
	if err != nil {
		return Entry{}, err
	}
	defer within.Close()
	// By way of the descriptor the path stands for this folder, whatever takes its
	// place. O_NONBLOCK: opening a named pipe must not wait for its writer.
	path := fmt.Sprintf("/proc/self/fd/%d/%s", within.Fd(), filepath.Base(name))
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return Entry{}, errors.New("it is a symbolic link: write the output itself")
	}
	if err != nil {
		return Entry{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Entry{}, err
	}
	if !info.Mode().IsRegular() {
		return Entry{}, fmt.Errorf("it is not a regular file but %s", info.Mode().Type())
	}
	if capacity := c.Usage().Capacity; task.Bytes(info.Size()) > capacity {
		return Entry{}, &cache.NoSpaceError{Need: task.Bytes(info.Size()), Capacity: capacity}
	}
	// A further link may be the payload's input, whose mode and time are the
	// cache's, or a way to change the content later.
	if status, ok := info.Sys().(*syscall.Stat_t); !ok || status.Nlink > 1 {
		return c.copyIn(ctx, path, file, how)
	}
	if how.sealed, err = seal(ctx, file, how.exec, false); err != nil {
		return Entry{}, err
	}
	if how.sole() {
		if err := file.Sync(); err != nil {
			return Entry{}, c.diskFull(err, how.sealed.manifest.Size)
		}
	}
	entry, _, err := c.place(path, how)
	if errors.Is(err, unix.EXDEV) {
		return c.copyIn(ctx, path, file, how)
	}
	return entry, err
}

// copyIn publishes a copy of an open file and removes the original.
func (c *Cache) copyIn(ctx context.Context, path string, file *os.File, how placing) (Entry, error) {
	info, err := file.Stat()
	if err != nil {
		return Entry{}, err
	}
	private := task.FileKey("adopt:" + strconv.FormatUint(c.serial.Add(1), 10))
	w, err := c.create(private, task.Bytes(info.Size()))
	if err != nil {
		return Entry{}, err
	}
	defer w.Abort()
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	source := contextReader{ctx, io.NewSectionReader(file, 0, info.Size())}
	if _, err := io.CopyBuffer(io.NewOffsetWriter(w, 0), source, *buffer); err != nil {
		return Entry{}, err
	}
	entry, _, err := w.publish(ctx, Expect{Exec: how.exec}, placing{outputs: how.outputs})
	if err != nil {
		return Entry{}, err
	}
	if err := os.Remove(path); err != nil {
		c.log.Warn("cannot remove an output after copying it into the cache", "path", path, "error", err)
	}
	return entry, nil
}

// contextReader ends a copy when its context does.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
