package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// TestACacheThatSomebodyRemovedGoesOn: what cleans up temporary folders of a node removes
// files and folders that nobody has used for days.
func TestACacheThatSomebodyRemovedGoesOn(t *testing.T) {
	c := openCache(t, Config{})
	put(t, c, "lfn:before", someBytes(1, 1000))
	for _, folder := range []string{filepath.Join(c.dir, tempFolder), c.dir} {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		key := task.FileKey("lfn:" + filepath.Base(folder))
		put(t, c, key, someBytes(2, 1000))
		pinned, err := c.Pin(key)
		if err != nil {
			t.Fatalf("without %s: %v", folder, err)
		}
		pinned.Release()
	}
	if _, err := c.Pin("lfn:before"); err == nil {
		t.Error("a removed file is served")
	}
}

// What is dropped is gone from the disk also where only the empty temporary folder was removed.
func TestWhatIsDroppedIsGoneWithoutATemporaryFolder(t *testing.T) {
	c := openCache(t, Config{})
	entry := put(t, c, "lfn:in", someBytes(1, 1000))
	if err := errors.Join(os.RemoveAll(filepath.Join(c.dir, tempFolder)), c.Drop("lfn:in")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(c.contentPath(entry.Digest)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the content of a dropped file is left: %v", err)
	}
}

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
	adopted, err := adopt(t.Context(), c, output(t, someBytes(2, 10)), false)
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
		if err := truncate(pinned.Path, 5); err != nil {
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

// truncate cuts a read-only file.
func truncate(path string, size int64) error {
	return errors.Join(os.Chmod(path, 0o644), os.Truncate(path, size))
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
	if err := truncate(c.contentPath(entry.Digest), 1); err != nil {
		t.Fatal(err)
	}
	put(t, c, "lfn:b", data)
	if !bytes.Equal(readBack(t, c, "lfn:b"), data) {
		t.Error("other content came back")
	}
	checkFolder(t, c)
}

// TestDiskFull: the file system refuses to make a file, to give it room, and
// to let it grow. Each time the error says so and nothing is left.
func TestDiskFull(t *testing.T) {
	calls := realSystem()
	calls.openTemp = func(path string) (*os.File, error) {
		return nil, &os.PathError{Op: "open", Path: path, Err: syscall.ENOSPC}
	}
	for name, write := range map[string]func(t *testing.T) (*Cache, error){
		"make": func(t *testing.T) (*Cache, error) {
			c := openCacheWith(t, Config{}, calls)
			_, err := c.Create("lfn:x", 10)
			return c, err
		},
		"give room": func(t *testing.T) (*Cache, error) { // far larger than any disk: refused before the first byte
			c := openCache(t, Config{Capacity: 1 << 60})
			_, err := c.Create("lfn:x", 1<<59)
			return c, err
		},
		"grow": func(t *testing.T) (*Cache, error) {
			c := openCache(t, Config{})
			w, err := c.Create("lfn:x", -1)
			if err != nil {
				t.Fatal(err)
			}
			limitFileSize(t, 1<<20) // what the tests note down is smaller
			_, err = w.WriteAt(make([]byte, 1<<20+1000), 0)
			if _, publishErr := w.Publish(Expect{Digest: task.Digest{1}}); publishErr == nil {
				t.Error("a file that was not written whole was published")
			}
			return c, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := write(t)
			var full *FullError
			if !errors.As(err, &full) || full.Dir != c.dir || !strings.Contains(err.Error(), "free space there") || !strings.Contains(err.Error(), "lfn:x") {
				t.Errorf("got %v", err)
			}
			checkFolder(t, c)
		})
	}
}

// limitFileSize makes the kernel refuse larger files until the test ends.
func limitFileSize(t *testing.T, size uint64) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limited := before
	limited.Cur = size
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
	})
}
