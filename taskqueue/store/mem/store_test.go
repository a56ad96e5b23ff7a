package mem_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(testing.TB) taskqueue.Store { return mem.New() }

func TestConformance(t *testing.T) { storetest.Run(t, open, nil) }
