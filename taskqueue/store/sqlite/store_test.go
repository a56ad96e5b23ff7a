package sqlite_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/taskqueue"
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

// empty is the file of a database without records; making its tables takes
// most of the time of a short test.
var empty = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "queue")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	store, err := sqlite.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(folder, sqlite.FileName))
})

func open(t testing.TB) taskqueue.Store {
	t.Helper()
	folder := t.TempDir()
	content, err := empty()
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, sqlite.FileName), content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return openIn(t, folder)
}

func reopen(t testing.TB, store taskqueue.Store) taskqueue.Store {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return openIn(t, store.(stored).folder)
}

func TestConformance(t *testing.T) { storetest.Run(t, open, reopen) }
