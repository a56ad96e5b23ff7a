package wire

import (
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

// Columns that do not fit each other are refused, whatever another pilot sends.
func TestColumnsOfAListFitEachOther(t *testing.T) {
	ids := []task.ID{"w-abcdefghij/a", "w-abcdefghij/b", "w-abcdefghij/c"}
	for want, in := range map[string]listed{
		"2 classes of 3":             {IDs: ids, Classes: []uint32{1, 2}},
		"3 steps of 2":               {IDs: ids, Steps: []int64{1, 2, 3}},
		"2 steps of -1":              {Steps: []int64{1, 2}, Names: []task.LFN{"w:a"}},
		"2 inputs, but 1 files":      {IDs: ids, Inputs: []uint32{0, 2, 0}, Names: []task.LFN{"w:a"}},
		"2 files that no task reads": {IDs: ids, Names: []task.LFN{"w:a", "w:b"}},
		"2 sizes of 3":               {IDs: ids, Inputs: []uint32{1}, Names: []task.LFN{"w:a", "w:b", "w:c"}, Sizes: []task.Bytes{1, 2}},
		"4 numbers of inputs of 3":   {IDs: ids, Inputs: []uint32{1, 0, 0, 0}},
		"1 files that no task reads": {Names: []task.LFN{"w:a"}},
		"1 inputs, but 0 files":      {IDs: ids, Inputs: []uint32{1}, Names: []task.LFN{"w:a"}},
		"2 resources of 3":           {IDs: ids, Resources: make([]task.Resources, 2)},
		"2 keys of 1":                {IDs: ids, Inputs: []uint32{1, 0, 0}, Names: []task.LFN{"w:a"}, Keys: []task.FileKey{"", "lfn:x"}},
		"2 versions of 3":            {IDs: ids, Versions: []uint64{1, 2}},
	} {
		if out, err := fromListed(&in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v; want an error with %q", out, err, want)
		}
	}
}
