package master

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// What was cancelled is remembered for a while, and does not pile up.
func TestCancelledTasksAreForgotten(t *testing.T) {
	var c cancellations
	c.reset()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	number := func(i int) message.LeasedID { return message.LeasedID{Lease: 1, Task: task.ID(fmt.Sprint("w/t", i))} }
	for i := range 10_000 {
		c.add(number(i), now)
		c.add(number(i), now) // as the queue repeats it
		now = now.Add(time.Second)
		if !c.has(number(i)) || !c.has(number(max(0, i-500))) {
			t.Fatalf("after %d tasks one is forgotten at once", i)
		}
	}
	if len(c.known) > 601 || len(c.order) != len(c.known) {
		t.Errorf("%d and %d of 10,000 cancelled tasks are remembered", len(c.known), len(c.order))
	}
}
