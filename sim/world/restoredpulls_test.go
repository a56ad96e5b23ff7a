package world

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// layers is work of three levels: chains, splits and merges.
func layers(width int) (tasks []task.Task) {
	file := func(layer, n int) string { return fmt.Sprintf("f%d.%d", layer, n%width) }
	for i := range width {
		tasks = append(tasks, one(fmt.Sprintf("first%d", i), makes(file(1, i))))
		in := []string{file(1, i), file(1, i+1+i%3)}
		tasks = append(tasks, one(fmt.Sprintf("second%d", i), reads(in[:1+i%2]...), makes(file(2, i))))
		if i < width/2 {
			tasks = append(tasks, one(fmt.Sprintf("third%d", i), reads(file(2, 2*i), file(2, 2*i+1)), makes(file(3, i))))
		}
	}
	return tasks
}

// The queue is put back to a copy, with a site that schedules itself and one that
// it matches for, pilots of both that it does not know, and copies on storage of
// which it has forgotten: all work ends and all outputs are stored.
func TestRestoreOfASiteAtWhichTheQueueMatches(t *testing.T) {
	for seed := range uint64(12) {
		w := newWorld(t, seed+1)
		w.allFinal = true
		sites := []*site{w.addSite("siteA", nil), w.addSite("siteB", inMode(taskqueue.ModeIsolated))}
		for range 2 {
			for _, s := range sites {
				w.start(s, 1, 2)
			}
		}
		w.run1 = func(task.ID, *node) time.Duration { return time.Duration(900+w.random.IntN(400)) * time.Millisecond }
		flow := w.submit("flow", layers(8)...)
		w.runUntil(time.Minute, func() bool { return len(w.started) >= 6 })
		w.run(time.Duration(w.random.IntN(1500)) * time.Millisecond)
		copied := w.queue.backup()
		w.submit("after", one("later", makes("l")))
		for _, s := range sites {
			w.startOne(s, 2, nil)
		}
		w.run(time.Duration(w.random.IntN(4000)) * time.Millisecond)
		w.queue.stop()
		w.run(time.Duration(w.random.IntN(4000)) * time.Millisecond)
		w.queue.restore(copied)
		w.finish(flow, 2*time.Minute)
	}
}

// A site tells the queue anew of copies that it knows, while it still has tasks
// that read them.
func TestRestoreWithReadersThatTakeLong(t *testing.T) {
	for _, mode := range []taskqueue.Mode{taskqueue.ModeDistributed, taskqueue.ModeIsolated} {
		w := newWorld(t, 1)
		w.allFinal = true
		w.start(w.addSite("siteA", inMode(mode)), 2, 2)
		w.run1 = func(id task.ID, _ *node) time.Duration {
			if id.Name() == "long" {
				return 30 * time.Minute
			}
			return time.Second
		}
		flow := w.submit("flow", one("make", makes("m")), one("long", reads("m"), makes("l")))
		unstored := func(n int) func() bool {
			return func() bool {
				return w.queue.workflow(flow).Counts[task.Done] == 1 && w.queue.workflow(flow).Unstored == n
			}
		}
		var copied backup
		w.runUntil(time.Minute, func() bool {
			if w.queue.workflow(flow).Counts[task.Done] == 1 && w.queue.workflow(flow).Unstored == 2 {
				copied = w.queue.backup()
			}
			return unstored(1)()
		})
		w.run(10 * time.Second) // the reader has begun
		w.queue.stop()
		w.run(time.Second)
		w.queue.restore(copied)
		if !unstored(2)() {
			t.Fatal("the copy knows what is stored: this tests nothing")
		}
		if !w.runUntil(5*time.Minute, unstored(1)) {
			t.Errorf("%s: five minutes after the restore the output is not stored by the queue", mode)
		}
		w.finish(flow, 2*time.Hour)
	}
}
