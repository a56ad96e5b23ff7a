package mem_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(testing.TB) taskqueue.Store { return mem.New() }

func TestConformance(t *testing.T) { storetest.Run(t, open, nil) }

func TestTablesInPlace(t *testing.T) {
	storetest.RunTables(t, func(testing.TB) taskqueue.Store { return mem.NewInPlace() })
}

func TestInPlaceKeepsUpdatesAndEndsWithAFailedOne(t *testing.T) {
	store := mem.NewInPlace()
	set := func(name string, failure error) error {
		return store.Update(t.Context(), func(tx taskqueue.Tx) error {
			if name != "" {
				if err := tx.Meta().Set(name, []byte("x")); err != nil {
					return err
				}
			}
			return failure
		})
	}
	refused := errors.New("refused")
	if err := set("", refused); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if err := set("kept", nil); err != nil {
		t.Fatalf("after an Update that failed and had written nothing: %v", err)
	}
	err := store.View(t.Context(), func(tx taskqueue.Tx) error {
		value, err := tx.Meta().Get("kept")
		if string(value) != "x" {
			t.Errorf("kept is %q", value)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := set("lost", refused); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	for _, call := range []func() error{
		func() error { return set("late", nil) },
		func() error { return store.View(t.Context(), func(taskqueue.Tx) error { return nil }) },
	} {
		if err := call(); !errors.Is(err, refused) {
			t.Errorf("a half changed store answers %v", err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
