package task_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

// Every field of Resources is in AllResources, and every method looks at it.
func TestEveryResourceCounts(t *testing.T) {
	if fields := reflect.TypeFor[task.Resources]().NumField(); fields != len(task.AllResources) {
		t.Fatalf("Resources has %d fields, AllResources %d", fields, len(task.AllResources))
	}
	for _, resource := range task.AllResources {
		t.Run(resource.Name, func(t *testing.T) {
			var need, none task.Resources
			resource.Set(&need, 3)
			if resource.Get(need) != 3 || reflect.ValueOf(need).IsZero() {
				t.Fatalf("set to 3 it is %d", resource.Get(need))
			}
			if none.Fits(need) || !need.Fits(none) || !need.Fits(need) {
				t.Error("Fits does not look at it")
			}
			if got := resource.Get(need.Add(need)); got != 6 {
				t.Errorf("3 added to 3 is %d", got)
			}
			if got := resource.Get(need.Sub(need)); got != 0 {
				t.Errorf("3 taken from 3 is %d", got)
			}
			if got := resource.Get(none.Max(need)); got != 3 {
				t.Errorf("the larger of 0 and 3 is %d", got)
			}
			if lacking, found := none.Lacking(need); !found || lacking.Name != resource.Name {
				t.Errorf("%q is lacking (%v)", lacking.Name, found)
			}
			if _, found := need.Lacking(need); found {
				t.Error("what is there is lacking")
			}
			if text := need.String(); !strings.Contains(text, resource.Name) {
				t.Errorf("%q does not name it", text)
			}
			resource.Set(&need, -1)
			if err := need.Validate(); err == nil || !strings.Contains(err.Error(), resource.Name) {
				t.Errorf("-1 of it: %v", err)
			}
		})
	}
}

func TestOneCoreIsOne(t *testing.T) {
	for want, resources := range map[string]task.Resources{
		"1 core, 1GiB memory":         {Cores: 1, Memory: task.GiB},
		"2 cores, 1MiB disk, 1 gpu":   {Cores: 2, Disk: task.MiB, GPUs: 1},
		"nothing":                     {},
		"1 core, 1GiB memory, 4 gpus": {Cores: 1, Memory: task.GiB, GPUs: 4},
	} {
		if got := resources.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
