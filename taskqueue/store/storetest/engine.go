package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// RunEngine compares an engine with a map of texts: random transactions are committed or
// rolled back, while one that only reads goes on seeing what it saw.
func RunEngine(t *testing.T, open func(testing.TB) tables.Engine) {
	defer fewChecks(t)()
	rapid.Check(t, func(r *rapid.T) {
		engine := open(t)
		committed := map[string]string{}
		key := rapid.SampledFrom([]string{"\x00", "\x01", "\x01a", "\x01a\x00", "\x01b", "\x01\xff", "\x02", "\xfe\xff\xff"})
		for range rapid.IntRange(1, 8).Draw(r, "transactions") {
			reader := begin(r, engine, false)
			seen := maps.Clone(committed)
			writer := begin(r, engine, true)
			next := maps.Clone(committed)
			for range rapid.IntRange(0, 8).Draw(r, "changes") {
				name := key.Draw(r, "key")
				if rapid.Bool().Draw(r, "put") {
					next[name] = rapid.SampledFrom([]string{"", "x", string(make([]byte, 9000))}).Draw(r, "value")
					must(r, writer.Put(tables.Row{Key: []byte(name), Value: []byte(next[name])}))
				} else {
					delete(next, name)
					must(r, writer.Delete([]byte(name)))
				}
				span := tables.Span{Down: rapid.Bool().Draw(r, "down")}
				for _, bound := range []*[]byte{&span.From, &span.Before} {
					if rapid.Bool().Draw(r, "bound") {
						*bound = []byte(key.Draw(r, "bound"))
					}
				}
				expectRows(r, writer, next, span, rapid.IntRange(1, 9).Draw(r, "limit"))
				expectRows(r, reader, seen, span, 9)
			}
			if rapid.Bool().Draw(r, "commit") {
				must(r, writer.Commit())
				committed = next
			} else {
				writer.Rollback()
			}
			expectRows(r, reader, seen, tables.Span{}, 9)
			reader.Rollback()
		}
		reader := begin(r, engine, false)
		expectRows(r, reader, committed, tables.Span{}, 9)
		reader.Rollback()
		must(r, engine.Close())
	})
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

func begin(t fataler, engine tables.Engine, write bool) tables.Transaction {
	t.Helper()
	transaction, err := engine.Begin(write)
	must(t, err)
	return transaction
}

// expectRows scans a span up to a limit.
func expectRows(t fataler, in tables.Transaction, want map[string]string, span tables.Span, limit int) {
	t.Helper()
	var expected, got []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if key >= string(span.From) && (span.Before == nil || bytes.Compare([]byte(key), span.Before) < 0) {
			expected = append(expected, fmt.Sprintf("%x %x", key, want[key]))
		}
	}
	if span.Down {
		slices.Reverse(expected)
	}
	expected = expected[:min(len(expected), limit)]
	must(t, in.Scan(span, func(row tables.Row) (bool, error) {
		got = append(got, fmt.Sprintf("%x %x", row.Key, row.Value))
		return len(got) < limit, nil
	}))
	if !slices.Equal(got, expected) {
		t.Fatalf("%+v: got %.300v\nwant %.300v", span, got, expected)
	}
}
