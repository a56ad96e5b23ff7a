package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
)

func set(t *testing.T, store taskqueue.Store, name, value string) {
	t.Helper()
	err := store.Update(context.Background(), func(tx taskqueue.Tx) error { return tx.Meta().Set(name, []byte(value)) })
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenMakesFolderForItsOwner(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a b", "50%?#&x=y", "queue")
	store, err := sqlite.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	set(t, store, "name", "value")
	for name, mode := range map[string]os.FileMode{"": 0o700, sqlite.FileName: 0o600, sqlite.FileName + "-wal": 0o600, sqlite.FileName + "-shm": 0o600} {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != mode {
			t.Errorf("%q has mode %o, want %o", name, got, mode)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(folder), "queue", "*-wal")); err != nil || len(left) > 0 {
		t.Errorf("the log was left behind: %v %v", left, err)
	}
}

// A backup that was put back may have come with a mode that lets others read the
// authority's key.
func TestDatabaseIsItsOwnersAlone(t *testing.T) {
	folder := t.TempDir()
	for range 2 {
		store, err := sqlite.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(folder, sqlite.FileName))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the database is %v, %v", info.Mode(), err)
		}
		if err := errors.Join(store.Close(), os.Chmod(filepath.Join(folder, sqlite.FileName), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFolderIsLocked(t *testing.T) {
	folder := t.TempDir()
	store, err := sqlite.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := sqlite.Open(folder); err == nil {
		second.Close()
		t.Fatal("two queues on one folder")
	} else if !strings.Contains(err.Error(), folder) || !strings.Contains(err.Error(), "another queue runs on it") {
		t.Errorf("error %q does not tell which folder and why", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store, err = sqlite.Open(folder)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	store.Close()
}

func TestNotADatabase(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, sqlite.FileName)
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database. ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	expectDamaged(t, path, openError(folder))
}

func openError(folder string) error {
	store, err := sqlite.Open(folder)
	if err == nil {
		err = store.Close()
	}
	return err
}

func expectDamaged(t *testing.T, path string, err error) {
	t.Helper()
	if !errors.Is(err, sqlite.ErrDamaged) {
		t.Fatalf("error %v, want ErrDamaged", err)
	}
	for _, part := range []string{path, "backup"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

// TestDamagedPages overwrites all pages but the first: opening or the first
// read tells, and nothing panics.
func TestDamagedPages(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, sqlite.FileName)
	store, err := sqlite.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Fill(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(content); i++ {
		content[i] ^= 0x5a
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	store, err = sqlite.Open(folder)
	if err == nil {
		defer store.Close()
		err = store.View(context.Background(), func(tx taskqueue.Tx) error {
			_, err := tx.Sites().All()
			return err
		})
	}
	expectDamaged(t, path, err)
}

func TestFolderThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := openError(filepath.Join(file, "queue"))
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v, want one that names %s", err, file)
	}
}

// A log whose database is missing or empty is not thrown away: it may hold all
// that is left.
func TestLogWithoutDatabase(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"missing": os.Remove,
		"empty":   func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, sqlite.FileName)
			for file, content := range map[string]string{path: "database", path + "-wal": "log"} {
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			expectDamaged(t, path, openError(folder))
			if log, err := os.ReadFile(path + "-wal"); err != nil || string(log) != "log" {
				t.Errorf("the log afterwards: %q, %v", log, err)
			}
		})
	}
}

// What is somebody else's database gets no tables of a queue.
func TestDatabaseOfSomethingElse(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, sqlite.FileName)
	alter(t, folder, "CREATE TABLE songs (title TEXT)")
	expectDamaged(t, path, openError(folder))
}

// alter changes a database behind the store's back.
func alter(t *testing.T, folder, statement string) {
	t.Helper()
	database, err := sql.Open("sqlite", filepath.Join(folder, sqlite.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := database.Exec(statement); err != nil {
		t.Fatal(err)
	}
	if err := database.Close(); err != nil {
		t.Fatal(err)
	}
}
