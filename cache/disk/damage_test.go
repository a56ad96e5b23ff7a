package disk

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// TestDamageIsNoticedAtPin: jobs do modify their inputs (FACTS, traps).
func TestDamageIsNoticedAtPin(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"truncated": func(path string) error { return os.Truncate(path, 10) },
		"same size": func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte("x"), 1000), 0)
		},
		"removed": os.Remove,
		"replaced by a link": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var told []task.FileKey
			c := openCache(t, Config{Evicted: func(keys []task.FileKey) { told = append(told, keys...) }})
			data := someBytes(1, 1000)
			entry := put(t, c, "lfn:in", data)
			held, err := c.Pin(entry.Key)
			if err != nil {
				t.Fatal(err)
			}
			if err := held.Check(); err != nil {
				t.Fatalf("an intact file: %v", err)
			}
			path := c.contentPath(entry.Digest)
			if err := errors.Join(os.Chmod(path, 0o644), damage(path)); err != nil {
				t.Fatal(err)
			}
			var corrupt *CorruptError
			if _, err := c.Pin("lfn:in"); !errors.As(err, &corrupt) || corrupt.Key != entry.Key || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v", err)
			}
			if _, found := c.Lookup(entry.Key); found {
				t.Error("it was not dropped")
			}
			if want := []task.FileKey{entry.Key, "lfn:in"}; !slices.Equal(told, want) {
				t.Errorf("told %v, want %v", told, want)
			}
			// The file comes back; the old pin neither opens it nor releases it.
			put(t, c, "lfn:in", data)
			again, err := c.Pin(entry.Key)
			if err != nil {
				t.Fatal(err)
			}
			held.Release()
			if got := c.Usage().Pinned; got != 1000 {
				t.Errorf("%d bytes pinned, want 1000", got)
			}
			again.Release()
			checkFolder(t, c)
		})
	}
}

// TestTimeLiesInThePast: a change within the file system's clock tick of
// publication would have the same time otherwise.
func TestTimeLiesInThePast(t *testing.T) {
	c := openCache(t, Config{})
	adopted, err := c.Adopt(t.Context(), output(t, someBytes(2, 10)), false, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range []Entry{put(t, c, "lfn:a", someBytes(1, 10)), adopted} {
		info, err := os.Stat(c.contentPath(entry.Digest))
		if err != nil || time.Since(info.ModTime()) < backdate {
			t.Errorf("modified at %v, %v", info.ModTime(), err)
		}
	}
}

func TestCheckAndOpenNoticeDamage(t *testing.T) {
	c := openCache(t, Config{})
	for name, look := range map[string]func(*Pinned) error{
		"check": (*Pinned).Check,
		"open": func(p *Pinned) error {
			_, err := p.Open()
			return err
		},
	} {
		put(t, c, "lfn:in", someBytes(1, 1000))
		pinned, err := c.Pin("lfn:in")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(pinned.Path, 5); err != nil {
			t.Fatal(err)
		}
		var corrupt *CorruptError
		if err := look(pinned); !errors.As(err, &corrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if err := look(pinned); !errors.Is(err, ErrNotCached) {
			t.Errorf("%s again: %v", name, err)
		}
		pinned.Release()
	}
	checkFolder(t, c)
}

// TestVerifyNoticesSilentDamage: same size, same time, other bytes.
func TestVerifyNoticesSilentDamage(t *testing.T) {
	c := openCache(t, Config{})
	entry := put(t, c, "lfn:in", someBytes(1, 1<<20))
	if err := c.Verify("lfn:in"); err != nil {
		t.Fatal(err)
	}
	flipByte(t, c.contentPath(entry.Digest))
	var corrupt *CorruptError
	if err := c.Verify("lfn:in"); !errors.As(err, &corrupt) {
		t.Fatalf("got %v", err)
	}
	if err := c.Verify("lfn:in"); !errors.Is(err, ErrNotCached) {
		t.Errorf("it was not dropped: %v", err)
	}
	checkFolder(t, c)
}

// flipByte changes content and leaves no trace in size and time.
func flipByte(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	err = errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, data, 0o644), os.Chmod(path, info.Mode()),
		os.Chtimes(path, info.ModTime(), info.ModTime()))
	if err != nil {
		t.Fatal(err)
	}
}

// TestPublishReplacesDamaged: content that arrives again takes the place of a
// damaged file instead of being thrown away for it.
func TestPublishReplacesDamaged(t *testing.T) {
	c := openCache(t, Config{})
	data := someBytes(1, 1000)
	entry := put(t, c, "lfn:a", data)
	if err := os.Truncate(c.contentPath(entry.Digest), 1); err != nil {
		t.Fatal(err)
	}
	put(t, c, "lfn:b", data)
	if !bytes.Equal(readBack(t, c, "lfn:b"), data) {
		t.Error("other content came back")
	}
	checkFolder(t, c)
}

// TestDiskFull writes to /dev/full, which refuses as a full disk does.
func TestDiskFull(t *testing.T) {
	calls := realSystem()
	calls.openTemp = func(path string) (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }
	c := openCacheWith(t, Config{}, calls)
	w, err := c.Create("lfn:x", 10)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.WriteAt([]byte("0123456789"), 0)
	var full *DiskFullError
	if !errors.As(err, &full) || full.Dir != c.dir || !strings.Contains(err.Error(), "no space left on device; free space there") {
		t.Errorf("write: %v", err)
	}
	if _, err := w.Publish(Expect{}); err == nil {
		t.Error("an unwritten file was published")
	}
	if usage := c.Usage(); usage.Reserved != 0 {
		t.Errorf("usage %+v", usage)
	}
	checkFolder(t, c)
}

// TestDiskFullAtOnce: a file far larger than the disk is refused before the
// first byte is written.
func TestDiskFullAtOnce(t *testing.T) {
	c := openCache(t, Config{Capacity: 1 << 60})
	_, err := c.Create("lfn:huge", 1<<59)
	var full *DiskFullError
	if !errors.As(err, &full) || full.Need != 1<<59 {
		t.Errorf("got %v", err)
	}
	checkFolder(t, c)
}
