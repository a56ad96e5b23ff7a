package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

func TestEngine(t *testing.T) {
	storetest.RunEngine(t, func(t testing.TB) tables.Engine {
		e, err := openDatabase(filepath.Join(t.TempDir(), FileName))
		if err == nil {
			_, err = schemaOf(e.writer)
		}
		if err != nil {
			t.Fatal(err)
		}
		return e
	})
}
