package taskqueue_test

import (
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Tasks that differ in one resource only are of two classes.
func TestEveryResourceMakesAClassOfItsOwn(t *testing.T) {
	seen := map[string]string{(taskqueue.Eligibility{}).Key(): "nothing"}
	for _, resource := range task.AllResources {
		var class taskqueue.Eligibility
		resource.Set(&class.Work.Resources, 1)
		if same, found := seen[class.Key()]; found {
			t.Errorf("1 of %s and %s are one class", resource.Name, same)
		}
		seen[class.Key()] = resource.Name
	}
}
