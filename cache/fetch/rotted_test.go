package fetch

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/task"
)

// rot changes a byte of a file and leaves its size and time.
func rot(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/3] ^= 0x10
	err = errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, data, 0), os.Chmod(path, info.Mode()), os.Chtimes(path, info.ModTime(), info.ModTime()))
	if err != nil {
		t.Fatal(err)
	}
}

// TestRottedFileIsFetchedAnew: a file that an earlier pilot left has rotted on
// the disk with size and time unchanged. No payload gets it.
func TestRottedFileIsFetchedAnew(t *testing.T) {
	s := newSite(t)
	data := content(1, 100_000)
	file := s.store("in", data, true)
	folder := t.TempDir()
	earlier, err := disk.Open(disk.Config{Dir: folder, Capacity: task.GiB})
	if err != nil {
		t.Fatal(err)
	}
	w, err := earlier.Create(file.Key(), file.Size)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	pinned, err := w.PublishPinned(disk.Expect{})
	if err != nil {
		t.Fatal(err)
	}
	path := pinned.Path
	pinned.Release()
	if err := earlier.Close(); err != nil {
		t.Fatal(err)
	}
	rot(t, path)
	p := s.join(options{folder: folder})
	// Several tasks at once: one reading tells all of them.
	sources := make(chan task.Source, 4)
	for range cap(sources) {
		go func() {
			source, err := p.read(t.Context(), file, data)
			if err != nil {
				t.Error(err)
			}
			sources <- source
		}()
	}
	for range cap(sources) {
		if source := <-sources; source == task.SourceLocal && t.Failed() {
			t.Errorf("read from %v", source)
		}
	}
	if n := s.storageReads(); n != 1 {
		t.Errorf("%d reads of the storage element, want 1", n)
	}
	if usage := p.cache.Usage(); usage.Verified != 1 || usage.Damaged != 1 {
		t.Errorf("usage %+v", usage)
	}
	for p.cache.Usage().Pinned != 0 { // who has read it lets go before who has fetched it
		runtime.Gosched()
	}
	// What is whole is read once only, however many want it.
	for range 3 {
		if source, err := p.read(t.Context(), file, data); err != nil || source != task.SourceLocal {
			t.Errorf("source %v, %v", source, err)
		}
	}
	if usage := p.cache.Usage(); usage.Verified != 1 {
		t.Errorf("usage %+v", usage)
	}
}
