package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// deepFolders makes folders below each other, names of one of which have so many
// bytes, and a file in the lowest. Every tenth is closed.
func deepFolders(t *testing.T, folder string, levels, bytes, size int) {
	t.Helper()
	at, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for level := range levels {
		name, above := strings.Repeat("d", bytes), at
		if err == nil {
			err = unix.Mkdirat(above, name, 0o700)
		}
		if err == nil {
			at, err = unix.Openat(above, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		if err == nil && level%10 == 9 && os.Geteuid() == 0 { // others could not measure it
			err = unix.Fchmod(at, 0)
		}
		_ = unix.Close(above)
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := unix.Openat(at, "file", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(file, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	_, _ = unix.Close(file), unix.Close(at)
}

// fewDescriptors lets this process open so many files more.
func fewDescriptors(t *testing.T, more int) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	var before unix.Rlimit
	if err = errors.Join(err, unix.Getrlimit(unix.RLIMIT_NOFILE, &before)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open) + more), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before) })
}

// TestFoldersThatLieDeep: no path leads to what is below 4,096 bytes of names, and
// there are more levels than a process may open files. Such folders count and go like
// all others.
func TestFoldersThatLieDeep(t *testing.T) {
	for name, tree := range map[string]struct{ levels, bytes int }{"long names": {60, 255}, "many levels": {300, 1}} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "work")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			deepFolders(t, folder, tree.levels, tree.bytes, 3<<20)
			fewDescriptors(t, 30)
			a := &attempt{ctx: t.Context(), folder: folder}
			if used := a.diskUsed(task.TiB); used < 3*task.MiB {
				t.Errorf("%s are seen of 3 MiB", used)
			}
			if err := RemoveTree(folder); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}

// TestTreesOfAllKindsGo: whatever it holds, a tree goes, and nothing that its links
// lead to.
func TestTreesOfAllKindsGo(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "keep"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(t.TempDir(), "work")
	folders := []string{top}
	err := os.Mkdir(top, 0o700)
	for i := range 1000 {
		path := filepath.Join(folders[r.IntN(len(folders))], fmt.Sprintf("n%d", i))
		switch r.IntN(5) {
		case 0, 1:
			err = errors.Join(err, os.Mkdir(path, 0o700))
			folders = append(folders, path)
		case 2:
			err = errors.Join(err, os.WriteFile(path, nil, 0o000))
		case 3:
			err = errors.Join(err, os.Symlink([]string{outside, "/", path, "..", "none"}[r.IntN(5)], path))
		case 4:
			err = errors.Join(err, unix.Mkfifo(path, 0o600))
		}
	}
	for _, folder := range folders {
		err = errors.Join(err, os.Chmod(folder, []fs.FileMode{0, 0o500, 0o300, 0o700}[r.IntN(4)]))
		if os.Geteuid() != 0 {
			break // what is below the first could not be closed
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := RemoveTree(top); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	if _, err := os.Lstat(filepath.Join(outside, "keep")); err != nil {
		t.Error(err)
	}
	if err := RemoveTree(top); err != nil {
		t.Errorf("what is not there: %v", err)
	}
}
