package world

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// The only pilot that a master has is on its way out, and finishes what runs
// there. Another has registered and never joined. The site gets nothing that it
// would give back at once.
func TestASiteThatTakesNoWorkGetsNone(t *testing.T) {
	w := newWorld(t, 1)
	w.run1 = func(task.ID, *node) time.Duration { return 40 * time.Second }
	s := w.addSite("siteA", nil)
	last := w.start(s, 1, 1)[0]
	w.queue.must(func(t *taskqueue.Turn) error {
		_, err := w.queue.Rules.Register(t, taskqueue.Registration{
			Site: s.name, Peer: "never", PilotDescription: taskqueue.PilotDescription{
				Slots: 4, Host: "never", Resources: task.Resources{Cores: 4, Memory: 16 * task.GiB},
				Addresses: []string{"/memory/never"}, Ends: w.net.Now().Add(24 * time.Hour),
			},
		})
		return err
	})
	flow := w.submit("flow", tree(10)...)
	w.run(5 * time.Second)
	last.stop(time.Minute)
	w.run(20 * time.Second)
	for _, state := range w.queue.tasks(flow) {
		if state.Lease > 10 {
			t.Fatalf("%s is in lease %d: the site gets again and again what it gives back", state.ID, state.Lease)
		}
	}
	if leases := len(w.queue.leasesOf(s.name)); leases > 1 {
		t.Errorf("the site holds %d leases, want that of what runs", leases)
	}
	w.start(s, 2, 2)
	w.finish(flow, 20*time.Minute)
}
