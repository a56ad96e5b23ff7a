package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/task"
)

const (
	// preallocateFrom is the size from which room is taken on the disk before
	// writing, so that a full disk is noticed at once and not after minutes.
	preallocateFrom = task.MiB
	// growStep is by how much the reservation of a file of unknown size grows
	// where there is room: fewer steps, at most so much reserved in vain.
	growStep = 4 * task.MiB
	// backdate is how far in the past the modification time of a published
	// file lies. Clocks of file systems tick every few milliseconds; without
	// it, a change within the tick of publication would leave no trace.
	backdate = time.Second
)

// Expect is what Publish holds content against. Zero fields are not known.
type Expect struct {
	Digest   task.Digest
	Adler32  string    // hex digits, as in grid catalogues
	Manifest *Manifest // of chunks of ChunkSize
	Exec     bool      // publish with mode 0555
}

// Writer fills one file that is not visible yet. WriteAt, ReadAt and Grow may
// be called from several goroutines at once; Publish after they returned.
// Every Writer must be published or aborted; Abort after Publish is harmless.
type Writer struct {
	cache *Cache
	key   task.FileKey // of the reservation
	size  task.Bytes   // -1 when not known
	path  string
	file  *os.File

	mu       sync.Mutex
	ended    bool
	reserved task.Bytes
	written  ranges
}

// Create reserves room for a file and returns where to write it. Size -1 means
// not known: the reservation then grows while writing. Errors: ErrExists,
// *cache.NoSpaceError, *FullError, ErrClosed.
func (c *Cache) Create(key task.FileKey, size task.Bytes) (*Writer, error) {
	if err := validateKey(key); err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	if size < -1 {
		return nil, fmt.Errorf("create %s: size %d is negative", key, size)
	}
	return c.create(key, size)
}

func (c *Cache) create(key task.FileKey, size task.Bytes) (*Writer, error) {
	err := c.reserve(key, max(size, 0))
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", key, err)
	}
	w := &Writer{cache: c, key: key, size: size, reserved: max(size, 0)}
	if w.path, err = c.tempPath(); err == nil {
		w.file, err = c.system.openTemp(w.path)
	}
	if err == nil {
		err = preallocate(w.file, size)
	}
	if err != nil {
		w.Abort()
		return nil, fmt.Errorf("create %s: %w", key, c.diskFull(err, size))
	}
	return w, nil
}

// reserve makes room for a file that is not there.
func (c *Cache) reserve(key task.FileKey, size task.Bytes) error {
	c.enter()
	defer c.leave()
	if c.closed {
		return fmt.Errorf("cache %w", ErrClosed)
	}
	if c.find(key) != nil {
		return ErrExists
	}
	evicted, err := c.index.Reserve(key, size)
	c.forget(evicted)
	if errors.Is(err, cache.ErrReserved) {
		err = fmt.Errorf("%w: %w", ErrExists, err)
	}
	return err
}

// preallocate takes room on the disk. File systems that cannot are written to
// without it.
func preallocate(file *os.File, size task.Bytes) error {
	if size < preallocateFrom {
		return nil
	}
	err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, int64(size))
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return err
	}
	return nil
}

// WriteAt writes a part. Beyond the announced size it is refused; beyond the
// reservation of a file of unknown size it grows that first. Errors:
// *FullError, *cache.NoSpaceError, ErrClosed after Publish or Abort.
func (w *Writer) WriteAt(p []byte, offset int64) (int, error) {
	end := task.Bytes(offset) + task.Bytes(len(p))
	if offset < 0 || end < 0 || w.size >= 0 && end > w.size {
		return 0, fmt.Errorf("write %s: bytes %d to %d of a file of %d bytes: the source sends more than it should", w.key, offset, end, w.size)
	}
	if err := w.growTo(end); err != nil {
		return 0, fmt.Errorf("write: %w", err)
	}
	n, err := w.file.WriteAt(p, offset)
	w.mu.Lock()
	w.written.add(offset, offset+int64(n))
	w.mu.Unlock()
	if errors.Is(err, os.ErrClosed) {
		err = ErrClosed
	}
	if err != nil {
		return n, fmt.Errorf("write %s: %w", w.key, w.cache.diskFull(err, task.Bytes(len(p))))
	}
	return n, nil
}

// ReadAt reads what was written, for example to verify or to pass on a chunk
// while others are still missing.
func (w *Writer) ReadAt(p []byte, offset int64) (int, error) { return w.file.ReadAt(p, offset) }

// Grow raises the reservation to a total, once a size that was not known gets
// known. Errors: *cache.NoSpaceError, ErrClosed.
func (w *Writer) Grow(total task.Bytes) error { return w.growTo(total) }

func (w *Writer) growTo(total task.Bytes) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return fmt.Errorf("writer of %s: %w", w.key, ErrClosed)
	}
	missing := total - w.reserved
	if missing <= 0 {
		return nil
	}
	grown := max(missing, growStep)
	err := w.cache.grow(w.key, grown)
	if noSpace := (*cache.NoSpaceError)(nil); errors.As(err, &noSpace) && grown > missing {
		grown = missing
		err = w.cache.grow(w.key, grown)
	}
	if err == nil {
		w.reserved += grown
	}
	return err
}

func (c *Cache) grow(key task.FileKey, by task.Bytes) error {
	c.enter()
	defer c.leave()
	evicted, err := c.index.Grow(key, by)
	c.forget(evicted)
	return err
}

// end marks the writer as ended and tells whether it was open.
func (w *Writer) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := !w.ended
	w.ended = true
	return open
}

// Abort removes what was written and gives the reservation back. After Publish
// or another Abort it does nothing.
func (w *Writer) Abort() {
	if w.end() {
		w.discard()
	}
}

func (w *Writer) discard() {
	if w.file != nil {
		_ = w.file.Close() // nothing in it is wanted
	}
	if err := removeIfThere(w.path); err != nil {
		w.cache.log.Warn("cannot remove an unfinished file", "path", w.path, "error", err)
	}
	w.cache.enter()
	defer w.cache.leave()
	w.cache.index.Cancel(w.key)
}

// Publish verifies the whole content and makes the file visible under its
// digest, and under its name if it was created by name. It ends the writer:
// on an error nothing is left behind. If the same content came into the cache
// meanwhile, that file is kept and returned. Errors: *MismatchError,
// *FullError, ErrClosed.
func (w *Writer) Publish(expect Expect) (Entry, error) {
	entry, _, err := w.publish(context.Background(), expect, placing{})
	return entry, err
}

// PublishPinned is Publish and Pin in one step, so that no other reservation
// can evict the file between them.
func (w *Writer) PublishPinned(expect Expect) (*Pinned, error) {
	_, pinned, err := w.publish(context.Background(), expect, placing{pin: true})
	return pinned, err
}

func (w *Writer) publish(ctx context.Context, expect Expect, how placing) (Entry, *Pinned, error) {
	if !w.end() {
		return Entry{}, nil, fmt.Errorf("publish %s: writer is %w", w.key, ErrClosed)
	}
	entry, pinned, err := w.place(ctx, expect, how)
	if err != nil {
		w.discard()
		return Entry{}, nil, fmt.Errorf("publish: %w", err)
	}
	// The content has left w.path, and the reservation is spent: it must not be
	// cancelled, somebody else may hold a new one under this key already.
	_ = w.file.Close() // what was read back and verified is written
	return entry, pinned, nil
}

func (w *Writer) place(ctx context.Context, expect Expect, how placing) (Entry, *Pinned, error) {
	got, err := w.verified(ctx, expect)
	if err != nil {
		return Entry{}, nil, err
	}
	how.reservation, how.sealed = w.key, got
	how.exec = expect.Exec
	if strings.HasPrefix(string(w.key), namePrefix) {
		how.name = w.key
	}
	if how.sole() {
		if err := w.file.Sync(); err != nil {
			return Entry{}, nil, fmt.Errorf("flush %s: %w", w.key, w.cache.diskFull(err, got.manifest.Size))
		}
	}
	entry, pinned, err := w.cache.place(w.path, how)
	if err != nil {
		return Entry{}, nil, fmt.Errorf("%s: %w", w.key, err)
	}
	return entry, pinned, nil
}

// verified seals the file and checks that it is complete and as expected.
func (w *Writer) verified(ctx context.Context, expect Expect) (sealed, error) {
	size, whole := w.written.contiguous()
	if !whole || w.size >= 0 && task.Bytes(size) != w.size {
		want := "a file without holes"
		if w.size >= 0 {
			want = fmt.Sprintf("%d bytes", w.size)
		}
		return sealed{}, &MismatchError{Key: w.key, What: "size", Want: want, Got: fmt.Sprintf("%d bytes from its beginning", size)}
	}
	got, err := seal(ctx, w.file, expect.Exec, expect.Adler32 != "")
	if err != nil {
		return sealed{}, fmt.Errorf("%s: %w", w.key, err)
	}
	if got.manifest.Size != task.Bytes(size) {
		return sealed{}, fmt.Errorf("%s has %d bytes on disk, %d were written: somebody else changed it", w.key, got.manifest.Size, size)
	}
	return got, got.compare(w.key, expect)
}

// compare holds content against what the key and the caller expect.
func (got content) compare(key task.FileKey, expect Expect) error {
	mismatch := func(what string, want, got any) error {
		return &MismatchError{Key: key, What: what, Want: fmt.Sprint(want), Got: fmt.Sprint(got)}
	}
	if digest, known := key.Digest(); known && digest != got.digest {
		return mismatch("digest", digest, got.digest)
	}
	if !expect.Digest.IsZero() && expect.Digest != got.digest {
		return mismatch("digest", expect.Digest, got.digest)
	}
	if want := strings.ToLower(expect.Adler32); want != "" && strings.Repeat("0", max(0, 8-len(want)))+want != got.adler32 {
		return mismatch("adler32", expect.Adler32, got.adler32)
	}
	if m := expect.Manifest; m != nil && !m.Equal(got.manifest) {
		for i := range min(len(m.Chunks), len(got.manifest.Chunks)) {
			if m.Chunks[i] != got.manifest.Chunks[i] {
				return mismatch(fmt.Sprintf("chunk %d", i), m.Chunks[i], got.manifest.Chunks[i])
			}
		}
		return mismatch("manifest of", fmt.Sprintf("%d bytes", m.Size), fmt.Sprintf("%d bytes", got.manifest.Size))
	}
	return nil
}
