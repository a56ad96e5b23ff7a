package experiment

import (
	"testing"

	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// A part of what `papers recorded` judges by: with the locality wait no workload takes
// more than 3 % longer than without, nor moves more.
func TestTheLocalityWaitCostsNothing(t *testing.T) {
	for _, c := range []struct {
		workload *trace.Workload
		shape    int
	}{{dataSets(), 0}, {chains(), 1}} {
		var ours, none played
		for i, into := range []*played{&ours, &none} {
			result, err := playRecorded(c.workload, c.shape, rivals[i], 1)
			if err != nil {
				t.Fatal(err)
			}
			*into = result
		}
		if ours.seconds > 1.03*none.seconds || ours.moved > 1.01*none.moved {
			t.Errorf("%s, %s: %.1f s and %.1f GB, without waiting %.1f s and %.1f GB", c.workload.Name, shapes[c.shape].name, ours.seconds, ours.moved, none.seconds, none.moved)
		}
	}
}
