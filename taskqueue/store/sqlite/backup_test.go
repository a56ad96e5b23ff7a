package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
)

// A backup of a queue that runs has all that was acknowledged, nobody else may read it,
// and it can be put in the place of the queue's database, which is kept.
func TestBackupAndRestore(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, folder, kept := context.Background(), "queue", "kept" // as an operator may name them
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	store := openIn(t, folder)
	storetest.Fill(t, store)
	before := storetest.Dump(t, store)
	if blocks, err := sqlite.Backup(ctx, folder, kept); err != nil || blocks == 0 {
		t.Fatalf("%d blocks, %v", blocks, err)
	}
	files, err := filepath.Glob(filepath.Join(kept, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, path := range append(files, kept) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if _, err := sqlite.Backup(ctx, folder, kept); !errors.Is(err, os.ErrExist) {
		t.Errorf("over another backup: %v", err)
	}
	set(t, store, "later", "value") // the queue goes on
	if _, _, err := sqlite.Restore(ctx, kept, folder); err == nil || !strings.Contains(err.Error(), "another queue") {
		t.Errorf("restored under a queue that runs: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for try := range 2 { // the second time over the first
		_, old, err := sqlite.Restore(ctx, kept, folder)
		if err != nil {
			t.Fatal(err)
		}
		again := openIn(t, folder)
		if got := storetest.Dump(t, again); got != before {
			t.Errorf("restored: %s\nwant %s", got, before)
		}
		if err := again.View(ctx, func(tx taskqueue.Tx) error {
			value, err := tx.Meta().Get("later")
			if len(value) > 0 {
				t.Error("it has what came after the backup")
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite.Verify(ctx, old); err != nil {
			t.Errorf("try %d: what was there before: %v", try, err)
		}
	}
	content, err := os.ReadFile(filepath.Join(kept, sqlite.FileName))
	if err != nil {
		t.Fatal(err)
	}
	for i := len(content) / 2; i < len(content); i++ {
		content[i] ^= 1
	}
	if err := os.WriteFile(filepath.Join(kept, sqlite.FileName), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := sqlite.Restore(ctx, kept, folder); !errors.Is(err, sqlite.ErrDamaged) {
		t.Errorf("a damaged backup is restored: %v", err)
	}
}

// What was deleted is given back to the disk.
func TestSpaceIsGivenBack(t *testing.T) {
	folder := t.TempDir()
	store := openIn(t, folder)
	size := func() int64 {
		info, err := os.Stat(filepath.Join(folder, sqlite.FileName))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for from := 0; from < 40_000; from += 10_000 {
		tasks, states := submission(from, 10_000)
		if err := store.Update(context.Background(), func(tx taskqueue.Tx) error { return tx.Tasks().Add(tasks, states) }); err != nil {
			t.Fatal(err)
		}
	}
	full := size()
	for more := true; more; {
		if err := store.Update(context.Background(), func(tx taskqueue.Tx) (err error) {
			more, err = tx.Tasks().DeleteWorkflow("w-aaaaaaaaaa", 2000)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		set(t, store, "later", strings.Repeat("x", i+1))
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if left := size(); full < 8<<20 || left > full*6/10 {
		t.Errorf("%d bytes are left of %d", left, full)
	}
}
