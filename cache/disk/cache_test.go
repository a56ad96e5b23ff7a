package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/blake3"
	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/task"
)

func TestMain(m *testing.M) {
	if os.Getenv(childFolder) != "" {
		os.Exit(crashChild())
	}
	goleak.VerifyTestMain(m)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openCache(t testing.TB, cfg Config) *Cache {
	t.Helper()
	return openCacheWith(t, cfg, realSystem())
}

func openCacheWith(t testing.TB, cfg Config, calls system) *Cache {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Capacity == 0 {
		cfg.Capacity = task.GiB
	}
	if cfg.Log == nil {
		cfg.Log = quiet()
	}
	c, err := openWith(cfg, calls)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// someBytes are reproducible and do not repeat.
func someBytes(seed uint64, size int) []byte {
	source := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	data := make([]byte, size)
	_, _ = source.Read(data) // never fails
	return data
}

func keyOf(data []byte) task.FileKey { return task.KeyOf("", blake3.Sum256(data)) }

// put writes and publishes content, in two parts out of order.
func put(t testing.TB, c *Cache, key task.FileKey, data []byte) Entry {
	t.Helper()
	w, err := c.Create(key, task.Bytes(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	half := len(data) / 2
	for _, part := range []struct{ from, to int }{{half, len(data)}, {0, half}} {
		if _, err := w.WriteAt(data[part.from:part.to], int64(part.from)); err != nil {
			t.Fatal(err)
		}
	}
	entry, err := w.Publish(Expect{})
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func readBack(t testing.TB, c *Cache, key task.FileKey) []byte {
	t.Helper()
	pinned, err := c.Pin(key)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Release()
	file, err := pinned.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// checkFolder asserts that the disk holds exactly the entries, each whole and
// of the right mode, and that nothing is left in the temporary folder.
func checkFolder(t testing.TB, c *Cache) {
	t.Helper()
	want := map[string]os.FileMode{}
	for _, entry := range c.Entries() {
		path := c.contentPath(entry.Digest)
		want[path], want[path+metaSuffix] = modeOf(entry.Exec), 0o600
		if err := c.Verify(entry.Key); err != nil {
			t.Errorf("entry does not verify: %v", err)
		}
	}
	want[filepath.Join(c.dir, lockFile)] = 0o600
	if c.shared != nil {
		for _, name := range []string{"turn", "users", "uses", "fetches", journalFile} {
			want[filepath.Join(c.dir, name)] = 0o600
		}
	}
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if mode, expected := want[path]; !expected || info.Mode().Perm() != mode {
			t.Errorf("on disk: %s with mode %v, expected: %t with mode %v", path, info.Mode(), expected, mode)
		}
		delete(want, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range want {
		t.Errorf("missing on disk: %s", path)
	}
	usage := c.Usage()
	if usage.Reserved != 0 || usage.Pinned != 0 {
		t.Errorf("something is still held: %+v", usage)
	}
}

func TestPublishByDigest(t *testing.T) {
	c := openCache(t, Config{})
	for _, size := range []int{0, 1, 1000, 300_000, int(ChunkSize), int(ChunkSize) + 12345} {
		data := someBytes(uint64(size), size)
		entry := put(t, c, keyOf(data), data)
		if entry.Key != keyOf(data) || entry.Size != task.Bytes(size) || entry.Digest != task.Digest(blake3.Sum256(data)) {
			t.Errorf("size %d: entry %+v", size, entry)
		}
		if err := entry.Manifest.Validate(); err != nil {
			t.Errorf("size %d: %v", size, err)
		}
		for i := range entry.Manifest.Chunks {
			from, length := entry.Manifest.Range(i)
			if !entry.Manifest.VerifyChunk(i, data[from:from+length]) {
				t.Errorf("size %d: chunk %d does not verify", size, i)
			}
		}
		if !bytes.Equal(readBack(t, c, entry.Key), data) {
			t.Errorf("size %d: other content came back", size)
		}
		if _, err := c.Create(entry.Key, 1); !errors.Is(err, ErrExists) {
			t.Errorf("creating it again: %v", err)
		}
	}
	checkFolder(t, c)
}

// TestPublishByName: an external file whose digest is not known gets it at
// first ingest and is reachable by both.
func TestPublishByName(t *testing.T) {
	dir := t.TempDir()
	var evicted []task.FileKey
	c := openCache(t, Config{Dir: dir, Evicted: func(keys []task.FileKey) { evicted = append(evicted, keys...) }})
	data := someBytes(1, 5000)
	first := put(t, c, "lfn:vo:ref.fa", data)
	second := put(t, c, "lfn:vo:copy of ref.fa", data)
	if first.Key != keyOf(data) || second.Key != first.Key {
		t.Errorf("keys %s and %s", first.Key, second.Key)
	}
	if usage := c.Usage(); usage.Files != 1 || usage.Used != 5000 {
		t.Errorf("the same content twice takes %+v", usage)
	}
	check := func(c *Cache) {
		t.Helper()
		for _, key := range []task.FileKey{"lfn:vo:ref.fa", "lfn:vo:copy of ref.fa", keyOf(data)} {
			if entry, found := c.Lookup(key); !found || entry.Key != keyOf(data) {
				t.Errorf("%s: found %t, %+v", key, found, entry)
			}
		}
	}
	check(c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = openCache(t, Config{Dir: dir, Evicted: func(keys []task.FileKey) { evicted = append(evicted, keys...) }})
	check(c)
	checkFolder(t, c)
	if err := c.Drop("lfn:vo:ref.fa"); err != nil {
		t.Fatal(err)
	}
	slices.Sort(evicted)
	if want := []task.FileKey{keyOf(data), "lfn:vo:copy of ref.fa", "lfn:vo:ref.fa"}; !slices.Equal(evicted, want) {
		t.Errorf("told %v, want %v", evicted, want)
	}
	if _, found := c.Lookup("lfn:vo:copy of ref.fa"); found {
		t.Error("a dropped file is found by name")
	}
	checkFolder(t, c)
}

func TestPublishRefusesOtherContent(t *testing.T) {
	c := openCache(t, Config{})
	small, large := someBytes(1, 1000), someBytes(2, int(ChunkSize)+1000)
	good, err := digestContent(context.Background(), bytes.NewReader(large), task.Bytes(len(large)), false)
	if err != nil {
		t.Fatal(err)
	}
	damaged := good.manifest
	damaged.Chunks = slices.Clone(damaged.Chunks)
	damaged.Chunks[1][0] ^= 1
	adler := fmt.Sprintf("%x", adler32.Checksum(large)) // without leading zeros, as some catalogues write it
	for name, test := range map[string]struct {
		data   []byte
		key    task.FileKey
		expect Expect
		what   string // "" when it fits
	}{
		"all fits":         {large, keyOf(large), Expect{Digest: good.digest, Adler32: strings.ToUpper(adler), Manifest: &good.manifest}, ""},
		"digest of key":    {small, keyOf([]byte("other")), Expect{}, "digest"},
		"digest expected":  {small, "lfn:a", Expect{Digest: blake3.Sum256([]byte("other"))}, "digest"},
		"adler32":          {small, "lfn:b", Expect{Adler32: "00000001"}, "adler32"},
		"adler32 nonsense": {small, "lfn:b2", Expect{Adler32: "not a checksum"}, "adler32"},
		"manifest":         {large, "lfn:c", Expect{Manifest: &damaged}, "chunk 1"},
		"manifest size":    {small, "lfn:d", Expect{Manifest: &Manifest{Size: 1, Chunk: ChunkSize}}, "manifest of"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := c.Create(test.key, task.Bytes(len(test.data)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.WriteAt(test.data, 0); err != nil {
				t.Fatal(err)
			}
			_, err = w.Publish(test.expect)
			var mismatch *MismatchError
			if test.what == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.As(err, &mismatch) || mismatch.What != test.what {
				t.Errorf("got %v", err)
			}
			if _, found := c.Lookup(test.key); found {
				t.Error("it was published all the same")
			}
		})
	}
	checkFolder(t, c)
}

func TestPublishRefusesIncomplete(t *testing.T) {
	c := openCache(t, Config{})
	for name, test := range map[string]struct {
		size  task.Bytes
		parts []int64 // of 100 bytes
	}{
		"hole":              {300, []int64{200, 0}},
		"hole, size unsaid": {-1, []int64{200, 0}},
		"late begin":        {-1, []int64{100}},
		"early end":         {300, []int64{0, 0}},
		"nothing":           {1, nil},
	} {
		w, err := c.Create("lfn:incomplete", test.size)
		if err != nil {
			t.Fatal(err)
		}
		for _, offset := range test.parts {
			if _, err := w.WriteAt(make([]byte, 100), offset); err != nil {
				t.Fatal(err)
			}
		}
		var mismatch *MismatchError
		if _, err := w.Publish(Expect{}); !errors.As(err, &mismatch) || mismatch.What != "size" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	checkFolder(t, c)
}

func TestWriterBounds(t *testing.T) {
	c := openCache(t, Config{Capacity: 100})
	w, err := c.Create("lfn:known", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{-1, 5, 1 << 62, 1<<63 - 1} {
		if _, err := w.WriteAt(make([]byte, 6), offset); err == nil {
			t.Errorf("6 bytes at %d of 10 were written", offset)
		}
	}
	if _, err := c.Create("lfn:known", 10); !errors.Is(err, ErrExists) || !errors.Is(err, cache.ErrReserved) {
		t.Errorf("second writer: %v", err)
	}
	w.Abort()
	w.Abort()
	if _, err := w.WriteAt([]byte("x"), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("write after abort: %v", err)
	}
	if _, err := w.Publish(Expect{}); !errors.Is(err, ErrClosed) {
		t.Errorf("publish after abort: %v", err)
	}

	w, err = c.Create("lfn:unknown", -1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(make([]byte, 60), 0); err != nil {
		t.Fatal(err)
	}
	if got := c.Usage().Reserved; got != 60 {
		t.Errorf("%d bytes reserved where a whole step has no room, want 60", got)
	}
	var noSpace *cache.NoSpaceError
	if _, err := w.WriteAt(make([]byte, 41), 60); !errors.As(err, &noSpace) {
		t.Errorf("101 of 100 bytes: %v", err)
	}
	if err := w.Grow(100); err != nil {
		t.Errorf("growing to what fits: %v", err)
	}
	entry, err := w.Publish(Expect{Exec: true})
	if err != nil || entry.Size != 60 || !entry.Exec {
		t.Errorf("published %+v, %v", entry, err)
	}
	if usage := c.Usage(); usage.Used != 60 || usage.Reserved != 0 {
		t.Errorf("after publication: %+v", usage)
	}
	for _, key := range []task.FileKey{"", "lfn:", "b3:12", "../../etc/passwd", "lfn:a\nb", task.FileKey("lfn:" + strings.Repeat("x", 2000))} {
		if _, err := c.Create(key, 1); err == nil {
			t.Errorf("key %q was accepted", key)
		}
	}
	checkFolder(t, c)
}

func TestFolderHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	c := openCache(t, Config{Dir: dir})
	if _, err := Open(Config{Dir: dir, Capacity: 1, Log: quiet()}); !errors.Is(err, ErrInUse) {
		t.Errorf("second owner: %v", err)
	}
	w, err := c.Create("lfn:x", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Publish(Expect{}); !errors.Is(err, ErrClosed) {
		t.Errorf("publish after close: %v", err)
	}
	if _, err := c.Pin("lfn:x"); !errors.Is(err, ErrClosed) {
		t.Errorf("pin after close: %v", err)
	}
	openCache(t, Config{Dir: dir})
}

func TestDefaultCapacity(t *testing.T) {
	dir := t.TempDir()
	got, err := DefaultCapacity(filepath.Join(dir, "not", "there", "yet"), 10*task.GiB)
	if err != nil || got != 8*task.GiB {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := DefaultCapacity("/dev/null/x", task.GiB); err == nil {
		t.Error("a folder below a file was sized")
	}
}
