package tables_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// shelf is the plainest engine: rows in a map, sorted when they are read.
type shelf map[tables.Table]map[string][]byte

func (s shelf) View(_ context.Context, read func(tables.Rows) error) error    { return read(s) }
func (s shelf) Update(_ context.Context, write func(tables.Rows) error) error { return write(s) }
func (s shelf) Close() error                                                  { return nil }

func (s shelf) Get(table tables.Table, keys ...[]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		values[i] = s[table][string(key)]
	}
	return values, nil
}

func (s shelf) Put(table tables.Table, rows ...tables.Row) error {
	if s[table] == nil {
		s[table] = make(map[string][]byte)
	}
	for _, row := range rows {
		s[table][string(row.Key)] = row.Value
	}
	return nil
}

func (s shelf) Delete(table tables.Table, keys ...[]byte) error {
	for _, key := range keys {
		delete(s[table], string(key))
	}
	return nil
}

func (s shelf) Scan(table tables.Table, span tables.Span, each func(tables.Row) (bool, error)) error {
	var rows []tables.Row
	for key, value := range s[table] {
		row := tables.Row{Key: []byte(key), Value: value}
		if bytes.Compare(row.Key, span.From) >= 0 && (span.Before == nil || bytes.Compare(row.Key, span.Before) < 0) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b tables.Row) int { return bytes.Compare(a.Key, b.Key) })
	if span.Down {
		slices.Reverse(rows)
	}
	for _, row := range rows {
		if more, err := each(row); err != nil || !more {
			return err
		}
	}
	return nil
}

// The plainest engine is enough for all that a queue asks of its tables.
func TestTables(t *testing.T) {
	storetest.RunTables(t, func(testing.TB) taskqueue.Store { return tables.New(shelf{}) })
}

// Each row that is changed, taken away or put back to an earlier value behind the
// store's back is noticed.
func TestDamageIsNoticed(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(r *rapid.T) {
		rows := shelf{}
		store := tables.New(rows)
		save := func(reason string) {
			err := store.Update(ctx, func(tx taskqueue.Tx) error {
				id := task.NewID("w-aaaaaaaaaa", "a")
				if reason == "first" {
					return tx.Tasks().Add([]task.Task{{ID: id}}, []taskqueue.TaskState{{ID: id, Seq: 1, State: task.Ready}})
				}
				return tx.Tasks().Save(taskqueue.TaskState{ID: id, State: task.Leased, Lease: 7, Reason: reason})
			})
			if err != nil {
				r.Fatal(err)
			}
		}
		save("first")
		earlier := make(shelf)
		for table, kept := range rows {
			for key, value := range kept {
				if err := earlier.Put(table, tables.Row{Key: []byte(key), Value: value}); err != nil {
					r.Fatal(err)
				}
			}
		}
		save("second")
		if n, err := store.Verify(ctx); err != nil || n == 0 {
			r.Fatalf("%d rows, %v", n, err)
		}
		var places []string
		for table, kept := range rows {
			for key := range kept {
				if tables.Names[table] != "totals" {
					places = append(places, string(rune(table))+key)
				}
			}
		}
		slices.Sort(places)
		place := rapid.SampledFrom(places).Draw(r, "row")
		table, key := tables.Table(place[0]), place[1:]
		before := rows[table][key]
		how := rapid.SampledFrom([]string{"changed", "gone", "earlier"}).Draw(r, "damage")
		switch how {
		case "changed":
			flipped := bytes.Clone(before)
			flipped[rapid.IntRange(0, len(flipped)-1).Draw(r, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
			rows[table][key] = flipped
		case "gone":
			delete(rows[table], key)
		case "earlier":
			if value := earlier[table][key]; value == nil || bytes.Equal(value, before) {
				return // it has none
			}
			rows[table][key] = earlier[table][key]
		}
		if _, err := store.Verify(ctx); !errors.Is(err, tables.ErrDamaged) || !strings.Contains(err.Error(), "backup") {
			r.Fatalf("row %q of %s is %s: %v", key, tables.Names[table], how, err)
		}
	})
}
