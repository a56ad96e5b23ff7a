package world

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// A pilot keeps nothing of files that its tasks were to read and that never came.
func TestNothingIsKeptOfFilesThatNeverCame(t *testing.T) {
	w := newWorld(t, 1)
	a := w.addSite("siteA", nil)
	pilots := w.start(a, 2, 2)
	pilots[0].misreads = true
	var tasks []task.Task
	for i := range 40 {
		tasks = append(tasks, one(fmt.Sprintf("t%d", i), reads(fmt.Sprintf("in%d", i)), makes(fmt.Sprintf("out%d", i))))
	}
	w.finish(w.submit("flow", tasks...), time.Hour)
	sizes := make(map[string]int)
	measure(reflect.ValueOf(pilots[0].worker), "worker", sizes, make(map[uintptr]bool))
	kept, known := sizes["worker.row.evaluator.references"]
	if held := 2 * len(pilots[0].files.Held()); !known || kept > held {
		t.Errorf("%d files count as read (%v), %d are in the cache", kept, known, held)
	}
}
