package sqlite_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
)

func leakTest(m *testing.M) { goleak.VerifyTestMain(m) }

// stored remembers where a store lives, to open it again.
type stored struct {
	taskqueue.Store
	folder string
}

func openIn(t testing.TB, folder string) taskqueue.Store {
	t.Helper()
	store, err := sqlite.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return stored{store, folder}
}

func open(t testing.TB) taskqueue.Store {
	t.Helper()
	return openIn(t, t.TempDir())
}

func reopen(t testing.TB, store taskqueue.Store) taskqueue.Store {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return openIn(t, store.(stored).folder)
}

func TestConformance(t *testing.T) { storetest.Run(t, open, reopen) }

func TestSameAsMemory(t *testing.T) {
	storetest.Compare(t, open, func(testing.TB) taskqueue.Store { return mem.New() })
}
