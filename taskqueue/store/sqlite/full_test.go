package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// TestDiskFull lets the database grow to so many pages, which SQLite reports as it
// reports a full disk: what was acknowledged is kept, and the queue goes on.
func TestDiskFull(t *testing.T) {
	folder := t.TempDir()
	store, e, err := open(folder, takeOver)
	if err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		if err := e.writer.once(fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(name string) error {
		return store.Update(context.Background(), func(tx taskqueue.Tx) error { return tx.Meta().Set(name, make([]byte, 1<<20)) })
	}
	limit(400) // 1.6 MB
	if err := fill("first"); err != nil {
		t.Fatal(err)
	}
	err = fill("second")
	if !errors.Is(err, taskqueue.ErrDiskFull) {
		t.Fatalf("error %v, want ErrDiskFull", err)
	}
	for _, part := range []string{folder, "free space"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	err = store.View(context.Background(), func(tx taskqueue.Tx) error {
		first, err := tx.Meta().Get("first")
		second, other := tx.Meta().Get("second")
		if first == nil || second != nil {
			t.Errorf("kept %d and %d bytes, want what was acknowledged", len(first), len(second))
		}
		return errors.Join(err, other)
	})
	if err != nil {
		t.Fatal(err)
	}
	limit(4000)
	if err := fill("second"); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Verify(context.Background(), folder); err != nil {
		t.Error(err)
	}
}
