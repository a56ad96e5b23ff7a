package mem

import (
	"testing"

	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

func TestEngine(t *testing.T) {
	storetest.RunEngine(t, func(testing.TB) tables.Engine {
		return NewEngine()
	})
}
