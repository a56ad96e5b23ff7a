package serving

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Two calls of a pilot may be served in any order: what the later one says holds.
func TestAnOvertakenPullSaysNothingOfItsPilot(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		desk := NewDesk(DefaultHolds)
		matching := NewMatching(Turns{
			Rules: taskqueue.NewRules(taskqueue.DefaultConfig()), Clock: func() taskqueue.Instant { return taskqueue.Instant(time.Hour) },
		}, desk, func() {})
		moment := Moment{Service: taskqueue.Instant(time.Hour), Machine: time.Unix(1000, 0)}
		pull := func(free int) (*Call, *task.Pull) {
			in := &task.Pull{Sync: task.Sync{Site: "siteA", Pilot: "p-a", Capacity: task.Capacity{Slots: 9, FreeSlots: free}}}
			return desk.Pull(moment, in, nil, func() {}), in
		}
		before, old := pull(7)
		after, recent := pull(2)
		if swapped {
			matching.Hear(after, recent)
			matching.Hear(before, old)
		} else {
			matching.Hear(before, old)
			matching.Hear(after, recent)
		}
		if free := matching.capacity("siteA").FreeSlots; free != 2 {
			t.Errorf("swapped %t: the pilot has %d free slots, it has said 2 in the later call", swapped, free)
		}
	}
}
