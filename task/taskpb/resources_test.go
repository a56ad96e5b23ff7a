package taskpb_test

import (
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// Every resource comes through the protos as it was.
func TestResourcesRoundTrip(t *testing.T) {
	var all task.Resources
	for i, resource := range task.AllResources {
		resource.Set(&all, int64(i)+7)
	}
	if got := taskpb.FromResources(taskpb.Resources(all)); got != all {
		t.Errorf("%v came back as %v", all, got)
	}
}
