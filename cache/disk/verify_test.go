package disk

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// reopened is the cache of a later process on the same folder.
func reopened(t *testing.T, c *Cache, cfg Config) *Cache {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = c.dir[:len(c.dir)-len(cacheFolder)]
	return openCache(t, cfg)
}

func verifyPinned(t *testing.T, c *Cache, key task.FileKey) error {
	t.Helper()
	pinned, err := c.Pin(key)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Release()
	return pinned.Verify(t.Context())
}

// TestContentIsVerifiedOnFirstUseAndAtAge: what was published by this process
// counts for a time, what an earlier one left does not.
func TestContentIsVerifiedOnFirstUseAndAtAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openCache(t, Config{})
		entry := put(t, c, "lfn:a", someBytes(1, 1000))
		for step, want := range []uint64{0, 0, 1, 1} {
			if err := verifyPinned(t, c, "lfn:a"); err != nil {
				t.Fatal(err)
			}
			if got := c.Usage().Verified; got != want {
				t.Errorf("step %d: read %d times, want %d", step, got, want)
			}
			wait(t.Context(), verifyAge*2/3)
		}
		c = reopened(t, c, Config{})
		for range 2 {
			if err := verifyPinned(t, c, "lfn:a"); err != nil || c.Usage().Verified != 1 {
				t.Errorf("%v, read %d times", err, c.Usage().Verified)
			}
		}
		flipByte(t, c.contentPath(entry.Digest))
		wait(t.Context(), verifyAge)
		var corrupt *CorruptError
		if err := verifyPinned(t, c, "lfn:a"); !errors.As(err, &corrupt) {
			t.Errorf("got %v", err)
		}
		if usage := c.Usage(); usage.Files != 0 || usage.Damaged != 1 {
			t.Errorf("usage %+v", usage)
		}
	})
}

// TestScrubFindsRottedFiles at its rate; the rest stays.
func TestScrubFindsRottedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openCache(t, Config{})
		const size = 1 << 20
		var entries []Entry
		for i := range 4 {
			entries = append(entries, putDigest(t, c, someBytes(uint64(i), size)))
		}
		var told []task.FileKey
		c = reopened(t, c, Config{Evicted: func(keys []task.FileKey) { told = append(told, keys...) }})
		flipByte(t, c.contentPath(entries[2].Digest))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = c.Scrub(ctx, size) }()
		wait(t.Context(), 3*time.Second+time.Millisecond)
		if usage := c.Usage(); usage.Verified != 3 {
			t.Errorf("after 3 s: %+v", usage)
		}
		wait(t.Context(), 2*time.Second)
		if usage := c.Usage(); usage.Verified != 4 || usage.Damaged != 1 || usage.Files != 3 {
			t.Errorf("after 5 s: %+v", usage)
		}
		if !slices.Equal(told, []task.FileKey{entries[2].Key}) {
			t.Errorf("told %v", told)
		}
		wait(t.Context(), verifyAge+scrubPause)
		if usage := c.Usage(); usage.Verified != 7 {
			t.Errorf("a day later: %+v", usage)
		}
		cancel()
		synctest.Wait()
	})
}

// TestScrubMakesNobodyWait: whoever needs a file that the scrub reads slowly
// waits for one of its pauses at most.
func TestScrubMakesNobodyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openCache(t, Config{})
		entry := putDigest(t, c, someBytes(1, 1<<20))
		c = reopened(t, c, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = c.Scrub(ctx, 1<<10) }() // 1024 s for all
		wait(t.Context(), time.Second)
		began := time.Now()
		if err := verifyPinned(t, c, entry.Key); err != nil || time.Since(began) > 256*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		cancel()
		synctest.Wait()
	})
}

// TestGoodBytesReplaceUnverified: content that arrives again takes the place of
// a file that may have rotted, with all that this one was.
func TestGoodBytesReplaceUnverified(t *testing.T) {
	c := openCache(t, Config{})
	data := someBytes(1, 1000)
	kept := []task.OutputID{made("x")}
	if _, err := adopt(t.Context(), c, output(t, data), true, kept...); err != nil {
		t.Fatal(err)
	}
	put(t, c, "lfn:a", data)
	var told []task.FileKey
	c = reopened(t, c, Config{Evicted: func(keys []task.FileKey) { told = append(told, keys...) }})
	flipByte(t, c.contentPath(keyDigest(t, keyOf(data))))
	entry := put(t, c, "lfn:b", data)
	if !bytes.Equal(readBack(t, c, "lfn:a"), data) {
		t.Error("rotted bytes stay")
	}
	if !entry.Exec || !slices.Equal(entry.Outputs, kept) || len(entry.Names) != 2 || len(told) != 0 {
		t.Errorf("%+v, told %v", entry, told)
	}
	checkFolder(t, c)
	c = reopened(t, c, Config{})
	if entry, found := c.Lookup("lfn:b"); !found || !entry.Exec || !slices.Equal(entry.Outputs, kept) {
		t.Errorf("after a restart: %+v", entry)
	}
}

func keyDigest(t *testing.T, key task.FileKey) task.Digest {
	t.Helper()
	digest, ok := key.Digest()
	if !ok {
		t.Fatal(key)
	}
	return digest
}

func TestExamineTellsDamagedFiles(t *testing.T) {
	c := openCache(t, Config{})
	var entries []Entry
	for i := range 4 {
		entries = append(entries, putDigest(t, c, someBytes(uint64(i), 1000)))
	}
	dir := c.dir[:len(c.dir)-len(cacheFolder)]
	if _, err := Examine(t.Context(), dir); !errors.Is(err, ErrInUse) {
		t.Errorf("beside a pilot: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	flipByte(t, c.contentPath(entries[0].Digest))
	if err := truncate(c.contentPath(entries[1].Digest), 10); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.contentPath(entries[2].Digest)+metaSuffix, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Examine(t.Context(), dir)
	if err != nil || len(all) != 4 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, one := range all {
		whole := one.Path == c.contentPath(entries[3].Digest)
		if whole != (one.Damage == "") || whole && one.Size != 1000 {
			t.Errorf("%+v", one)
		}
	}
	if _, err := Examine(t.Context(), t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("where no cache is: %v", err)
	}
}

func putDigest(t *testing.T, c *Cache, data []byte) Entry {
	t.Helper()
	return put(t, c, keyOf(data), data)
}
