package workernode

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/task"
)

// storingNode has a cache and may write to every folder.
func storingNode(t *testing.T) *workerNode {
	t.Helper()
	cache, err := disk.Open(disk.Config{Dir: t.TempDir(), Capacity: task.MiB})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	client := storage.NewClient(storage.Options{FileRoots: []string{"/"}})
	t.Cleanup(func() { client.Close() })
	return &workerNode{cache: cache, storage: client}
}

// A cached output whose bytes have changed behind the cache's back, its size
// and time have not, must not become the copy that stays.
func TestDamagedOutputsAreNotUploaded(t *testing.T) {
	n := storingNode(t)
	folder, element, cache := t.TempDir(), t.TempDir(), n.cache
	put := func(name string, damage bool) error {
		made := filepath.Join(folder, name)
		if err := os.WriteFile(made, []byte("bytes of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		entry, err := cache.Adopt(t.Context(), filepath.Dir(made), filepath.Base(made), false, task.OutputID{LFN: "w-a:x"})
		if err != nil {
			t.Fatal(err)
		}
		if damage {
			flipOneByte(t, cache, entry.Key)
		}
		_, err = n.Put(t.Context(), "file://"+element, name, entry.Key, false)
		if _, cached := cache.Lookup(entry.Key); cached == damage {
			t.Errorf("%s: in the cache afterwards: %v", name, cached)
		}
		return err
	}
	if err := put("sound", false); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(element, "sound")); err != nil || !bytes.Equal(got, []byte("bytes of sound")) {
		t.Errorf("stored %q, %v", got, err)
	}
	var corrupt *disk.CorruptError
	if err := put("damaged", true); !errors.As(err, &corrupt) {
		t.Errorf("got %v, want that the content is damaged", err)
	}
	if _, err := os.Stat(filepath.Join(element, "damaged")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was stored: %v", err)
	}
}

// What an earlier upload has put there is not written again, unless it is not
// all there or damaged; a first upload does not ask.
func TestUploadsThatArePerhapsThere(t *testing.T) {
	n := storingNode(t)
	folder, element, cache := t.TempDir(), t.TempDir(), n.cache
	made := filepath.Join(folder, "x")
	if err := os.WriteFile(made, []byte("made"), 0o600); err != nil {
		t.Fatal(err)
	}
	entry, err := cache.Adopt(t.Context(), filepath.Dir(made), filepath.Base(made), false, task.OutputID{LFN: "w-a:x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, example := range []struct {
		there        string
		written      bool
		perhapsThere bool
	}{
		{"made", false, true},
		{"cut", true, true},
		{"eadm", true, true},
		{"made", true, false},
	} {
		stored, long := filepath.Join(element, "x"), time.Unix(1, 0)
		if err := errors.Join(os.WriteFile(stored, []byte(example.there), 0o600), os.Chtimes(stored, long, long)); err != nil {
			t.Fatal(err)
		}
		url, err := n.Put(t.Context(), "file://"+element, "x", entry.Key, example.perhapsThere)
		if err != nil || url != "file://"+element+"/x" {
			t.Errorf("%+v: %q, %v", example, url, err)
		}
		if got, err := os.ReadFile(stored); err != nil || string(got) != "made" {
			t.Errorf("%+v: stored is %q, %v", example, got, err)
		}
		if info, err := os.Stat(stored); err != nil || info.ModTime().Equal(long) == example.written {
			t.Errorf("%+v: %v, %v", example, info, err)
		}
	}
}

// What is on a storage element is found if it has the right content. A folder that
// is empty or missing, as where it is not mounted, says nothing.
func TestOutputsAreFoundOnStorage(t *testing.T) {
	n := storingNode(t)
	element, digest := t.TempDir(), task.Digest(blake3.Sum256([]byte("made")))
	find := func(element string) (string, error) {
		return n.Find(t.Context(), "file://"+element, "w/t/a/x", 4, digest)
	}
	for _, away := range []string{element, filepath.Join(element, "missing")} {
		if url, err := find(away); err == nil {
			t.Errorf("%s: %q, want that it does not answer", away, url)
		}
	}
	stored := filepath.Join(element, "w/t/a/x")
	if err := os.MkdirAll(filepath.Dir(stored), 0o700); err != nil {
		t.Fatal(err)
	}
	if url, err := find(element); url != "" || err != nil {
		t.Errorf("missing: %q, %v", url, err)
	}
	for content, sound := range map[string]bool{"made": true, "eadm": false, "mad": false, "": false} {
		if err := os.WriteFile(stored, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		url, err := find(element)
		if sound != (url == "file://"+stored) || !sound && url != "" || err != nil {
			t.Errorf("%q: %q, %v", content, url, err)
		}
	}
}

func flipOneByte(t *testing.T, cache *disk.Cache, key task.FileKey) {
	t.Helper()
	pinned, err := cache.Pin(key)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Release()
	before, err := os.Stat(pinned.Path)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(pinned.Path)
	if err != nil {
		t.Fatal(err)
	}
	content[0] ^= 1
	if err := os.Chmod(pinned.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pinned.Path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(pinned.Path, before.Mode()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(pinned.Path, before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
}
