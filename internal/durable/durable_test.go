package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileIsWrittenWholeOrNotAtAll(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	for _, content := range []string{"one", "another, longer one", ""} {
		if err := WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o640 {
			t.Fatalf("%v, %v", info, err)
		}
		if read, err := os.ReadFile(path); err != nil || string(read) != content {
			t.Fatalf("%q, %v; want %q", read, err, content)
		}
	}
	inTheWay := filepath.Join(folder, "folder")
	if err := os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(inTheWay, []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if err := WriteFile(filepath.Join(folder, "missing", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 2 {
		t.Errorf("%v are left, %v: want the file and the folder", left, err)
	}
}

// Files that were being written when their process was killed go, and nothing else.
func TestTidy(t *testing.T) {
	folder := t.TempDir()
	below := filepath.Join(folder, "below")
	if err := os.MkdirAll(filepath.Join(folder, ".new-folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(folder, ".new-1"), filepath.Join(below, ".new-2"), filepath.Join(below, "kept")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Tidy(folder); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]int{folder: 2, below: 1} {
		if left, err := os.ReadDir(folder); err != nil || len(left) != want {
			t.Errorf("%v are left, %v; want %d", left, err, want)
		}
	}
}
