package disk

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/task"
)

func output(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// adopt takes the file at a path.
func adopt(ctx context.Context, c *Cache, path string, exec bool, outputs ...task.OutputID) (Entry, error) {
	return c.Adopt(ctx, filepath.Dir(path), filepath.Base(path), exec, outputs...)
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var status unix.Stat_t
	if err := unix.Lstat(path, &status); err != nil {
		t.Fatal(err)
	}
	return status.Ino
}

func assertGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

func TestAdoptMoves(t *testing.T) {
	c := openCache(t, Config{})
	data := someBytes(1, 70_000)
	path := output(t, data)
	before := inode(t, path)
	entry, err := adopt(t.Context(), c, path, true, made("x"))
	if err != nil {
		t.Fatal(err)
	}
	if entry.Key != keyOf(data) || !entry.Exec || !entry.Sole() || entry.Size != 70_000 {
		t.Errorf("entry %+v", entry)
	}
	if after := inode(t, c.contentPath(entry.Digest)); after != before {
		t.Error("it was copied, not moved")
	}
	assertGone(t, path)
	checkFolder(t, c)
}

// TestAdoptSameContent: two payloads may make the same file, often an empty one.
func TestAdoptSameContent(t *testing.T) {
	c := openCache(t, Config{})
	for i, attributes := range []struct {
		exec    bool
		outputs []task.OutputID
	}{{false, nil}, {true, nil}, {false, []task.OutputID{made("x")}}, {false, []task.OutputID{made("y")}}, {false, nil}} {
		path := output(t, nil)
		entry, err := adopt(t.Context(), c, path, attributes.exec, attributes.outputs...)
		if err != nil {
			t.Fatal(err)
		}
		if entry.Exec != (i >= 1) || entry.Sole() != (i >= 2) {
			t.Errorf("after adoption %d: %+v", i, entry)
		}
		assertGone(t, path)
	}
	if usage := c.Usage(); usage.Files != 1 {
		t.Errorf("usage %+v", usage)
	}
	checkFolder(t, c)
}

// TestAdoptLinked: an output that is another link to an input must not take
// the cached file's mode and time with it, one with a link that stays behind
// must not change through it.
func TestAdoptLinked(t *testing.T) {
	c := openCache(t, Config{})
	input := put(t, c, "lfn:in", someBytes(1, 1000))
	path := filepath.Join(t.TempDir(), "out")
	if err := os.Link(c.contentPath(input.Digest), path); err != nil {
		t.Fatal(err)
	}
	entry, err := adopt(t.Context(), c, path, false, made("x"))
	if err != nil || entry.Key != input.Key {
		t.Fatalf("adopted input: %+v, %v", entry, err)
	}
	assertGone(t, path)

	path = output(t, someBytes(2, 1000))
	if err := os.Link(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	entry, err = adopt(t.Context(), c, path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+"2", []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readBack(t, c, entry.Key), someBytes(2, 1000)) {
		t.Error("a link that stayed behind changed the cached file")
	}
	assertGone(t, path)
	checkFolder(t, c)
}

func TestAdoptAcrossFileSystems(t *testing.T) {
	calls := realSystem()
	crossed := false
	calls.rename = func(from, to string) error {
		if filepath.Base(from) == "out" {
			crossed = true
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EXDEV}
		}
		return os.Rename(from, to)
	}
	c := openCacheWith(t, Config{}, calls)
	data := someBytes(1, 5<<20)
	path := output(t, data)
	entry, err := adopt(t.Context(), c, path, false, made("x"))
	if err != nil || !crossed {
		t.Fatalf("crossed %t: %v", crossed, err)
	}
	if !bytes.Equal(readBack(t, c, entry.Key), data) {
		t.Error("other content came back")
	}
	assertGone(t, path)
	checkFolder(t, c)
}

func TestAdoptRefuses(t *testing.T) {
	c := openCache(t, Config{Capacity: 1000})
	dir := t.TempDir()
	link, pipe, large := filepath.Join(dir, "link"), filepath.Join(dir, "pipe"), output(t, someBytes(1, 1001))
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		link: "symbolic link", pipe: "not a regular file", dir: "not a regular file",
		filepath.Join(dir, "missing"): "no such file", large: "does not fit into a cache of 1000B",
	} {
		if _, err := adopt(t.Context(), c, path, false); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	var noSpace *cache.NoSpaceError
	if _, err := adopt(t.Context(), c, large, false); !errors.As(err, &noSpace) {
		t.Errorf("too large: %v", err)
	}
	if _, err := os.Stat(large); err != nil {
		t.Errorf("a refused output is gone: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := adopt(ended, c, output(t, someBytes(2, 10)), false); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context's end: %v", err)
	}
	checkFolder(t, c)
}

// meddler is a context that does something whenever it is asked, which is
// while a file is being hashed.
type meddler struct {
	context.Context
	meddle func()
}

func (m meddler) Err() error {
	m.meddle()
	return m.Context.Err()
}

// TestAdoptRefusesWhatIsStillWritten: some process of the payload was left.
func TestAdoptRefusesWhatIsStillWritten(t *testing.T) {
	c := openCache(t, Config{})
	path := output(t, someBytes(1, 1<<20))
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	ctx := meddler{t.Context(), func() {
		if _, err := writer.WriteAt([]byte("x"), 0); err != nil {
			t.Error(err)
		}
	}}
	if _, err := adopt(ctx, c, path, false); !errors.Is(err, errUnstable) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("a refused output is gone: %v", err)
	}
	// Written to later, it is taken, but not served afterwards.
	entry, err := adopt(t.Context(), c, path, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteAt([]byte("y"), 0); err != nil {
		t.Fatal(err)
	}
	var corrupt *CorruptError
	if _, err := c.Pin(entry.Key); !errors.As(err, &corrupt) {
		t.Errorf("pin after a late write: %v", err)
	}
	checkFolder(t, c)
}

// TestAdoptRefusesWhatIsSwapped: another file takes the path between hash and
// move.
func TestAdoptRefusesWhatIsSwapped(t *testing.T) {
	calls := realSystem()
	swap := func() error { return nil }
	calls.rename = func(from, to string) error {
		err := swap()
		swap = func() error { return nil }
		return errors.Join(err, os.Rename(from, to))
	}
	c := openCacheWith(t, Config{}, calls)
	path, other := output(t, someBytes(1, 1000)), output(t, someBytes(2, 1000))
	swap = func() error { return os.Rename(other, path) }
	if _, err := adopt(t.Context(), c, path, false); !errors.Is(err, errUnstable) {
		t.Errorf("got %v", err)
	}
	checkFolder(t, c)
}

// made names an output of some attempt.
// TestAdoptAsksForRoomFirst: 4 TiB of holes are refused without being read.
func TestAdoptAsksForRoomFirst(t *testing.T) {
	c := openCache(t, Config{Dir: t.TempDir(), Capacity: 100 * task.MiB})
	path := output(t, nil)
	if err := os.Truncate(path, 4<<40); err != nil {
		t.Fatal(err)
	}
	var noSpace *cache.NoSpaceError
	if _, err := adopt(t.Context(), c, path, false); !errors.As(err, &noSpace) {
		t.Errorf("adopted: %v", err)
	}
}

// TestAdoptStaysInTheFolder: a folder that is exchanged for a link to another
// place brings nothing from there.
func TestAdoptStaysInTheFolder(t *testing.T) {
	c := openCache(t, Config{Dir: t.TempDir(), Capacity: 100 * task.MiB})
	private := output(t, []byte("private"))
	work := t.TempDir()
	if err := os.Symlink(filepath.Dir(private), filepath.Join(work, "sub")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Adopt(t.Context(), work, "sub/"+filepath.Base(private), false); err == nil {
		t.Error("a file of another folder was adopted")
	}
	if content, err := os.ReadFile(private); err != nil || string(content) != "private" {
		t.Errorf("the other folder's file: %q, %v", content, err)
	}
}

func made(name string) task.OutputID {
	return task.OutputID{
		Attempt: task.AttemptID{Task: task.NewID("w-abcdefghij", "make"), Generation: 1, Lease: 2, Pilot: "p-abcdefgh", Counter: 3},
		LFN:     task.Qualify("w-abcdefghij", name),
	}
}

// TestOneFileIsTwoOutputs: a file stays while one of the outputs that it is
// is on no storage element, also after a restart.
func TestOneFileIsTwoOutputs(t *testing.T) {
	dir := t.TempDir()
	c := openCache(t, Config{Dir: dir, Capacity: 1000})
	var key task.FileKey
	for _, name := range []string{"x", "y"} {
		entry, err := adopt(t.Context(), c, output(t, someBytes(7, 600)), false, made(name))
		if err != nil {
			t.Fatal(err)
		}
		key = entry.Key
	}
	c.LetGo(key, made("x"))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = openCache(t, Config{Dir: dir, Capacity: 1000})
	if entry, _ := c.Lookup(key); !slices.Equal(entry.Outputs, []task.OutputID{made("y")}) {
		t.Fatalf("after a restart it is kept as %+v", entry.Outputs)
	}
	if err := c.Keep(key, made("z")); err != nil {
		t.Fatal(err)
	}
	c.LetGo(key, made("y"))
	var noSpace *cache.NoSpaceError
	if _, err := c.Create("lfn:other", 600); !errors.As(err, &noSpace) {
		t.Fatalf("z is kept, but there is room for another file: %v", err)
	}
	c.LetGo(key, made("z"))
	w, err := c.Create("lfn:other", 600)
	if err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if err := c.Keep(key, made("x")); !errors.Is(err, ErrNotCached) {
		t.Errorf("an evicted file can be kept: %v", err)
	}
}
