package world

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// idleCentral is a site where the queue matches, whose pilots, of one and four slots, have
// waited for work for a while.
func idleCentral(t *testing.T, seed uint64) (w *world, pilots []*node) {
	t.Helper()
	w = newWorld(t, seed)
	s := w.addSite("siteA", inMode(taskqueue.ModeCentralized))
	pilots = append(w.start(s, 1, 1), w.start(s, 1, 4)...)
	w.run(30 * time.Second)
	return w, pilots
}

// A task that comes up is given at once to an idle pilot that may run it, where others
// that may not are idle, too.
func TestATaskIsGivenAtOnceToAPilotThatMayRunIt(t *testing.T) {
	for seed := range uint64(4) {
		w, pilots := idleCentral(t, seed)
		for i, asks := range []func(*task.Task){
			func(t *task.Task) { t.Require = `pilot.host == "` + pilots[0].host + `"` },
			func(t *task.Task) { t.Require = `pilot.host == "` + pilots[1].host + `"` },
			func(t *task.Task) { t.Resources.Cores = 4 },
		} {
			name := fmt.Sprint("t", i)
			w.run(3 * time.Second)
			flow, began := w.submit(name, one(name, asks)), w.now()
			id := task.NewID(flow, name)
			if w.runUntil(time.Minute, func() bool { return w.started[id] > 0 }); w.now()-began > 200*time.Millisecond {
				t.Errorf("seed %d: %s starts after %s", seed, name, w.now()-began)
			}
			w.finish(flow, time.Minute)
		}
	}
}

// A task that has failed is given at once to another node when its pause is over.
func TestARetryBeginsWhenItsPauseIsOverWhereTheQueueMatches(t *testing.T) {
	for seed := range uint64(4) {
		w, _ := idleCentral(t, seed)
		w.fails = func(id task.ID, _ *node) bool { return w.started[id] == 1 }
		flow := w.submit("flow", one("t"))
		id, due := task.NewID(flow, "t"), taskqueue.Instant(0)
		w.runUntil(time.Minute, func() bool {
			state := w.queue.tasks(flow)[0]
			due = state.NotBefore
			return state.State == task.Ready && w.started[id] == 1
		})
		if w.runUntil(time.Minute, func() bool { return w.started[id] == 2 }); w.queue.clock().Sub(due) > 200*time.Millisecond {
			t.Errorf("seed %d: it is tried again %s after its pause", seed, w.queue.clock().Sub(due))
		}
	}
}
