package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/task"
)

func TestCacheVerify(t *testing.T) {
	folder := t.TempDir()
	files, err := disk.Open(disk.Config{Dir: folder, Capacity: task.GiB})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, text := range []string{"one", "two"} {
		out := filepath.Join(t.TempDir(), "out")
		if err := os.WriteFile(out, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		entry, err := files.Adopt(t.Context(), filepath.Dir(out), filepath.Base(out), false)
		if err != nil {
			t.Fatal(err)
		}
		pinned, err := files.Pin(entry.Key)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, pinned.Path)
		pinned.Release()
	}
	expect := func(code int, words string, args ...string) {
		t.Helper()
		out, err := call(t, append([]string{"cache", "verify", folder}, args...)...)
		got := 0
		if err != nil {
			got = exitCode(t.Context(), err)
			out += err.Error()
		}
		if got != code || !strings.Contains(out, words) {
			t.Errorf("code %d, want %d: %s", got, code, out)
		}
	}
	expect(exitConflict, "a pilot runs on")
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	expect(exitOK, "0 files of 2 files damaged")
	info, err := os.Stat(paths[1])
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.Chmod(paths[1], 0o600), os.WriteFile(paths[1], []byte("owt"), 0), os.Chtimes(paths[1], info.ModTime(), info.ModTime()))
	if err != nil {
		t.Fatal(err)
	}
	expect(exitFailed, paths[1])
	expect(exitFailed, `"ok": false`, "--output", "json")
	expect(exitFailed, paths[0], "--all")
	if _, err := call(t, "cache", "verify", t.TempDir()); exitCode(t.Context(), err) != exitNotFound {
		t.Errorf("no cache: %v", err)
	}
}
