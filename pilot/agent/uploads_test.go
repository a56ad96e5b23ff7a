package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/task"
)

// A cached output whose bytes have changed behind the cache's back, its size
// and time have not, must not become the copy that stays.
func TestDamagedOutputsAreNotUploaded(t *testing.T) {
	folder, element := t.TempDir(), t.TempDir()
	cache, err := disk.Open(disk.Config{Dir: folder, Capacity: task.MiB})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	n := &workerNode{cache: cache, storage: storage.NewClient(storage.Options{FileRoots: []string{"/"}})}
	defer n.storage.Close()
	put := func(name string, damage bool) error {
		made := filepath.Join(folder, name)
		if err := os.WriteFile(made, []byte("bytes of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		entry, err := cache.Adopt(t.Context(), made, false, task.OutputID{LFN: "w-a:x"})
		if err != nil {
			t.Fatal(err)
		}
		if damage {
			flipOneByte(t, cache, entry.Key)
		}
		_, err = n.Put(t.Context(), "file://"+element, name, entry.Key)
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
