package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// limit lets the database grow to so many pages, which SQLite reports as it
// reports a full disk.
func limit(t *testing.T, store *Store, pages int) {
	t.Helper()
	store.writer.mutex.Lock()
	defer store.writer.mutex.Unlock()
	if err := store.writer.conn.once(fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
		t.Fatal(err)
	}
}

func fill(name string) func(taskqueue.Tx) error {
	return func(tx taskqueue.Tx) error { return tx.Meta().Set(name, make([]byte, 1<<20)) }
}

func values(t *testing.T, store *Store, names ...string) (present []string) {
	t.Helper()
	err := store.View(context.Background(), func(tx taskqueue.Tx) error {
		for _, name := range names {
			value, err := tx.Meta().Get(name)
			if err != nil {
				return err
			}
			if value != nil {
				present = append(present, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return present
}

func TestDiskFull(t *testing.T) {
	folder := t.TempDir()
	store, err := open(folder)
	if err != nil {
		t.Fatal(err)
	}
	limit(t, store, 400) // 1.6 MB
	if err := store.Update(context.Background(), fill("first")); err != nil {
		t.Fatal(err)
	}
	err = store.Update(context.Background(), fill("second"))
	if !errors.Is(err, taskqueue.ErrDiskFull) {
		t.Fatalf("error %v, want ErrDiskFull", err)
	}
	for _, part := range []string{folder, "free space"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if got := values(t, store, "first", "second"); fmt.Sprint(got) != "[first]" {
		t.Errorf("kept %v, want what was acknowledged", got)
	}
	limit(t, store, 4000)
	if err := store.Update(context.Background(), fill("second")); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullBatch lets one Update that finds no space share its transaction
// with small ones: they must be kept, it must not.
func TestFullBatch(t *testing.T) {
	store, err := open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	store.writer.patience = time.Hour
	limit(t, store, 400)
	var group sync.WaitGroup
	var names []string
	inside, release := make(chan struct{}), make(chan struct{})
	start := func(name string, write func(taskqueue.Tx) error, full bool) {
		names = append(names, name)
		group.Go(func() {
			err := store.Update(context.Background(), write)
			if errors.Is(err, taskqueue.ErrDiskFull) != full || err != nil && !full {
				t.Errorf("%s: error %v", name, err)
			}
		})
	}
	small := func(name string) func(taskqueue.Tx) error {
		return func(tx taskqueue.Tx) error { return tx.Meta().Set(name, []byte(name)) }
	}
	var once sync.Once
	start("opener", func(tx taskqueue.Tx) error {
		once.Do(func() { close(inside); <-release })
		return small("opener")(tx)
	}, false)
	<-inside
	for n := range 5 {
		name := fmt.Sprintf("small %d", n)
		start(name, small(name), false)
	}
	start("large", func(tx taskqueue.Tx) error { return tx.Meta().Set("large", make([]byte, 4<<20)) }, true)
	for n := range 5 {
		name := fmt.Sprintf("small too %d", n)
		start(name, small(name), false)
	}
	for store.writer.waiting.Load() < 11 { // until all of them wait for the opener
		runtime.Gosched()
	}
	close(release)
	group.Wait()
	if got := values(t, store, names...); len(got) != len(names)-1 || strings.Contains(fmt.Sprint(got), "large") {
		t.Errorf("kept %v of %v", got, names)
	}
}

// TestBrokenBatch lets the common commit fail: each member is tried again
// alone and none is lost.
func TestBrokenBatch(t *testing.T) {
	store, err := open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	store.writer.patience = time.Hour
	var group sync.WaitGroup
	inside, release := make(chan struct{}), make(chan struct{})
	calls := make([]int, 4)
	for n := range calls {
		group.Go(func() {
			err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
				calls[n]++
				if n == 0 && calls[n] == 1 {
					close(inside)
					<-release
				}
				if n == 3 && calls[n] == 1 { // as SQLite does after some failures of the disk
					store.writer.batch.broken = errors.New("disk failure")
				}
				_, err := tx.Meta().Next("counter", 1)
				return err
			})
			if err != nil {
				t.Errorf("update %d: %v", n, err)
			}
		})
		if n == 0 {
			<-inside
		}
	}
	for store.writer.waiting.Load() < 3 {
		runtime.Gosched()
	}
	close(release)
	group.Wait()
	if calls[0] != 2 || calls[3] != 2 {
		t.Errorf("calls %v: the first and the last shared a transaction that was lost", calls)
	}
	err = store.Update(context.Background(), func(tx taskqueue.Tx) error {
		next, err := tx.Meta().Next("counter", 1)
		if next != 5 {
			t.Errorf("counter %d after four Updates, want 5", next)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
