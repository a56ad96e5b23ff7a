package tables_test

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// full is an engine that has no room for large values, which it tells at a Put or only
// when it commits.
type full struct {
	*shelf
	late bool
}

func (f full) Begin(bool) (tables.Transaction, error) {
	return &crammed{&copied{f.shelf, maps.Clone(f.rows)}, f.late, nil}, nil
}

type crammed struct {
	*copied
	late bool
	err  error
}

func (c *crammed) Put(rows ...tables.Row) error {
	for _, row := range rows {
		if len(row.Value) > 1<<20 {
			c.err = taskqueue.ErrDiskFull
		}
	}
	if c.err != nil && !c.late {
		return c.err
	}
	return c.copied.Put(rows...)
}

func (c *crammed) Commit() error {
	if c.err != nil {
		return c.err
	}
	return c.copied.Commit()
}

func small(name string) func(taskqueue.Tx) error {
	return func(tx taskqueue.Tx) error { return tx.Meta().Set(name, []byte(name)) }
}

func present(t *testing.T, store taskqueue.Store, names ...string) (found []string) {
	t.Helper()
	err := store.View(t.Context(), func(tx taskqueue.Tx) error {
		for _, name := range names {
			value, err := tx.Meta().Get(name)
			if err != nil {
				return err
			}
			if value != nil {
				found = append(found, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Of Updates that share a commit those are kept for which there is room, whether one of
// the others ends by its own error, by a panic, or has more than there is room for.
func TestCommonCommit(t *testing.T) {
	abort := errors.New("abort")
	large := func(size int) func(taskqueue.Tx) error {
		return func(tx taskqueue.Tx) error { return tx.Meta().Set("lost", make([]byte, size)) }
	}
	for name, c := range map[string]struct {
		write func(taskqueue.Tx) error
		want  error
		late  bool
	}{
		"too large":             {large(2 << 20), taskqueue.ErrDiskFull, false},
		"too large to keep":     {large(9 << 20), taskqueue.ErrDiskFull, false},
		"too large to commit":   {large(2 << 20), taskqueue.ErrDiskFull, true},
		"aborted":               {func(tx taskqueue.Tx) error { return errors.Join(small("lost")(tx), abort) }, abort, false},
		"aborted after a flush": {func(tx taskqueue.Tx) error { return errors.Join(fillCache(tx), small("lost")(tx), abort) }, abort, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := open(t, full{newShelf(), c.late}, nil)
			store.SetPatience(time.Hour)
			var group sync.WaitGroup
			var names []string
			inside, release := make(chan struct{}), make(chan struct{})
			start := func(name string, write func(taskqueue.Tx) error, want error) {
				names = append(names, name)
				group.Go(func() {
					if err := store.Update(t.Context(), write); !errors.Is(err, want) {
						t.Errorf("%s: error %v, want %v", name, err, want)
					}
				})
			}
			var once sync.Once
			start("opener", func(tx taskqueue.Tx) error {
				once.Do(func() { close(inside); <-release })
				return small("opener")(tx)
			}, nil)
			<-inside
			for n := range 5 {
				name := fmt.Sprintf("small %d", n)
				start(name, small(name), nil)
			}
			start("lost", c.write, c.want)
			for n := range 5 {
				name := fmt.Sprintf("small too %d", n)
				start(name, small(name), nil)
			}
			for store.Waiting() < 11 { // until all of them wait for the opener
				runtime.Gosched()
			}
			close(release)
			group.Wait()
			if got := present(t, store, names...); len(got) != len(names)-1 || strings.Contains(fmt.Sprint(got), "lost") {
				t.Errorf("kept %v of %v", got, names)
			}
			if _, err := store.Verify(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// fillCache writes more than a transaction keeps in memory, in rows that there is room for.
func fillCache(tx taskqueue.Tx) error {
	for i := range 20 {
		if err := tx.Meta().Set(fmt.Sprint("many", i), make([]byte, 1<<19)); err != nil {
			return err
		}
	}
	return nil
}
