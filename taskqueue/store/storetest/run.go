package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Open returns a new empty store; the suite closes it.
type Open func(t testing.TB) taskqueue.Store

// Reopen closes a store and opens what it left behind.
type Reopen func(t testing.TB, store taskqueue.Store) taskqueue.Store

// Run runs the whole suite. A store that outlives nothing gives no reopen.
func Run(t *testing.T, open Open, reopen Reopen) {
	defer fewChecks(t)()
	RunTables(t, open)
	each(t, open, []named{
		{"TaskErrors", testTaskErrors},
		{"Changed", testChanged},
		{"ReadOnly", testReadOnly},
		{"TxOver", testTxOver},
		{"Rollback", testRollback},
		{"SwallowedError", testSwallowedError},
		{"Panic", testPanic},
		{"ReadYourWrites", testReadYourWrites},
		{"ViewDuringUpdate", testViewDuringUpdate},
		{"ViewIsStable", testViewIsStable},
		{"Context", testContext},
		{"Concurrency", testConcurrency},
		{"MixedOutcomes", testMixedOutcomes},
		{"Closed", testClosed},
		{"CloseWaits", testCloseWaits},
	})
	if reopen != nil {
		t.Run("Reopen", func(t *testing.T) { testReopen(t, open, reopen) })
	}
}

// RunTables runs that part of the suite in which no Update fails and none runs
// beside another: what is kept, and in which order it is read.
func RunTables(t *testing.T, open Open) {
	each(t, open, []named{{"Ready", testReady}, {"WholeRecords", testWholeRecords}, {"Ownership", testOwnership}})
	t.Run("Random", func(t *testing.T) { compare(t, open) })
	t.Run("Crowds", func(t *testing.T) { compareCrowds(t, open) })
}

type named struct {
	name string
	test func(*testing.T, taskqueue.Store)
}

// each gives every test a store of its own.
func each(t *testing.T, open Open, tests []named) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // engines wait for disks
			store := open(t)
			defer store.Close()
			test.test(t, store)
			verify(t, store)
		})
	}
}

// update runs an Update that must succeed.
func update(t testing.TB, store taskqueue.Store, write func(taskqueue.Tx) error) {
	t.Helper()
	if err := store.Update(context.Background(), write); err != nil {
		t.Fatalf("update: %v", err)
	}
}

// fataler is what *testing.T and *rapid.T have in common here.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// view runs a View that must succeed.
func view(t fataler, store taskqueue.Store, read func(taskqueue.Tx)) {
	t.Helper()
	err := store.View(context.Background(), func(tx taskqueue.Tx) error {
		read(tx)
		return nil
	})
	if err != nil {
		t.Fatalf("view: %v", err)
	}
}

// want compares what a read returned with what is expected.
func want[T any](t testing.TB, what string, expected T) func(T, error) {
	t.Helper()
	return func(got T, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if printed, wanted := print(t, got), print(t, expected); printed != wanted {
			t.Fatalf("%s:\n got %s\nwant %s", what, printed, wanted)
		}
	}
}

// list names records by one of their fields, in order.
func list[T any, K any](t testing.TB, what string, name func(T) K, expected ...K) func([]T, error) {
	t.Helper()
	return func(got []T, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var names []K
		for _, record := range got {
			names = append(names, name(record))
		}
		if printed, wanted := print(t, names), print(t, expected); printed != wanted {
			t.Fatalf("%s:\n got %s\nwant %s", what, printed, wanted)
		}
	}
}

// print is a form in which records can be compared: it tells nil from empty.
func print(t fataler, value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("cannot print %T: %v", value, err)
	}
	return string(text)
}

// first returns the first error that is not nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// verify has a store that can do it compare all that it keeps with its checksums.
func verify(t fataler, store taskqueue.Store) {
	t.Helper()
	checked, ok := store.(interface {
		Verify(context.Context) (uint64, error)
	})
	if !ok {
		return
	}
	if _, err := checked.Verify(context.Background()); err != nil && !errors.Is(err, taskqueue.ErrClosed) {
		t.Fatalf("verify: %v", err)
	}
}
