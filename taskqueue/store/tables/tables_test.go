package tables_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// shelf is the plainest engine: a map that is copied for each transaction and sorted
// when it is read.
type shelf struct{ rows map[string][]byte }

func (s *shelf) Begin(bool) (tables.Transaction, error) { return &copied{s, maps.Clone(s.rows)}, nil }
func (s *shelf) Close() error                           { return nil }

type copied struct {
	shelf *shelf
	rows  map[string][]byte
}

func (c *copied) Rollback() {}

func (c *copied) Commit() error {
	c.shelf.rows = c.rows
	return nil
}

func (c *copied) Put(rows ...tables.Row) error {
	for _, row := range rows {
		c.rows[string(row.Key)] = row.Value
	}
	return nil
}

func (c *copied) Delete(keys ...[]byte) error {
	for _, key := range keys {
		delete(c.rows, string(key))
	}
	return nil
}

func (c *copied) Scan(span tables.Span, each func(tables.Row) (bool, error)) error {
	keys := slices.Sorted(maps.Keys(c.rows))
	if span.Down {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if key < string(span.From) || span.Before != nil && key >= string(span.Before) {
			continue
		}
		if more, err := each(tables.Row{Key: []byte(key), Value: c.rows[key]}); err != nil || !more {
			return err
		}
	}
	return nil
}

func newShelf() *shelf { return &shelf{map[string][]byte{}} }

func open(t interface{ Fatal(...any) }, engine tables.Engine, witness tables.Witness) *tables.Store {
	store, err := tables.Open(engine, witness)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestShelf(t *testing.T) {
	storetest.RunEngine(t, func(testing.TB) tables.Engine { return newShelf() })
}

// The plainest engine is enough for all that a queue asks of its tables.
func TestTables(t *testing.T) {
	storetest.RunTables(t, func(t testing.TB) taskqueue.Store { return open(t, newShelf(), nil) })
}

// Each block that is changed, taken away or put back to an earlier value behind the
// store's back is noticed. What has changed or is missing is noticed by whoever reads it.
func TestDamageIsNoticed(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(r *rapid.T) {
		kept := newShelf()
		store := open(r, kept, nil)
		save := func(state task.State) {
			err := store.Update(ctx, func(tx taskqueue.Tx) error {
				var tasks []task.Task
				var states []taskqueue.TaskState
				for i := range 200 {
					id := task.NewID("w-aaaaaaaaaa", fmt.Sprintf("t[%03d]", i))
					tasks = append(tasks, task.Task{ID: id})
					states = append(states, taskqueue.TaskState{ID: id, Seq: uint64(i + 1), State: state, Lease: task.LeaseID(i % 3)})
				}
				if state == task.Ready {
					return tx.Tasks().Add(tasks, states)
				}
				return tx.Tasks().Save(states...)
			})
			if err != nil {
				r.Fatal(err)
			}
		}
		save(task.Ready)
		earlier := maps.Clone(kept.rows)
		save(task.Leased)
		if n, err := store.Verify(ctx); err != nil || n < 10 {
			r.Fatalf("%d blocks, %v", n, err)
		}
		read := func() (text string, err error) {
			err = store.View(ctx, func(tx taskqueue.Tx) error {
				all, leased := tx.Tasks().InWorkflow("w-aaaaaaaaaa", 0, 1000)
				some, first := tx.Tasks().InLease(1)
				described, last := tx.Tasks().Describe(task.NewID("w-aaaaaaaaaa", "t[000]"), task.NewID("w-aaaaaaaaaa", "t[199]"))
				text = fmt.Sprint(all, some, described)
				return errors.Join(leased, first, last)
			})
			return text, err
		}
		whole, err := read()
		if err != nil {
			r.Fatal(err)
		}
		place := rapid.SampledFrom(slices.Sorted(maps.Keys(kept.rows))).Draw(r, "block")
		before := kept.rows[place]
		kept.rows = maps.Clone(kept.rows)
		how := rapid.SampledFrom([]string{"changed", "gone", "earlier"}).Draw(r, "damage")
		switch how {
		case "changed":
			kept.rows[place] = bytes.Clone(before)
			kept.rows[place][rapid.IntRange(0, len(before)-1).Draw(r, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
		case "gone":
			delete(kept.rows, place)
		case "earlier":
			if value := earlier[place]; value == nil || bytes.Equal(value, before) {
				return // it has none
			}
			kept.rows[place] = earlier[place]
		}
		if _, err := store.Verify(ctx); !errors.Is(err, tables.ErrDamaged) || !strings.Contains(err.Error(), "backup") {
			r.Fatalf("block %q is %s: %v", place, how, err)
		}
		if how == "earlier" || place == "\x00" {
			return
		}
		if text, err := read(); err == nil && text != whole || err != nil && !errors.Is(err, tables.ErrDamaged) {
			r.Fatalf("block %q is %s, a read says %v", place, how, err)
		}
	})
}

// seen is a witness in memory.
type seen struct{ commit uint64 }

func (s *seen) Read() (uint64, error) { return s.commit, nil }
func (s *seen) Write(commit uint64)   { s.commit = commit }

// A store that lacks a commit that was acknowledged is refused.
func TestLostCommits(t *testing.T) {
	kept, witness := newShelf(), &seen{}
	set := func(value string) {
		store := open(t, kept, witness)
		if err := store.Update(t.Context(), func(tx taskqueue.Tx) error { return tx.Meta().Set("a", []byte(value)) }); err != nil {
			t.Fatal(err)
		}
	}
	set("first")
	earlier := kept.rows
	set("second")
	open(t, kept, witness)
	kept.rows = earlier
	if _, err := tables.Open(kept, witness); !errors.Is(err, tables.ErrDamaged) || !strings.Contains(err.Error(), "commit 2 was acknowledged") {
		t.Errorf("error %v", err)
	}
	open(t, kept, &seen{1}) // one that lags behind
}
