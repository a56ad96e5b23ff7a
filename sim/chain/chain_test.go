package chain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// tree is work of two levels: makers, and readers of two makers' outputs each.
func tree(makers int) (tasks []task.Task) {
	for i := range makers {
		tasks = append(tasks, one(fmt.Sprintf("make%d", i), reads("db"), makes(fmt.Sprintf("m%d", i))))
	}
	for i := range makers {
		tasks = append(tasks, one(fmt.Sprintf("read%d", i),
			reads(fmt.Sprintf("m%d", i), fmt.Sprintf("m%d", (i+1)%makers)), makes(fmt.Sprintf("r%d", i))))
	}
	return tasks
}

// Work of two sites ends, and what the catalogue says is true.
func TestWorkEnds(t *testing.T) {
	w := newWorld(t, 1)
	for _, name := range []task.Site{"siteA", "siteB"} {
		w.start(w.addSite(name, nil), 3, 2)
	}
	w.finish(w.submit("flow", tree(20)...), 10*time.Minute)
}

// A master is killed, its successor too, the last one stops in an orderly way,
// and the queue is away for a while: all work ends.
func TestWorkSurvivesItsMasters(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		w.start(s, 5, 2)
		flow := w.submit("flow", tree(60)...)
		w.run(5 * time.Second)
		s.master().kill()
		w.run(8 * time.Second)
		s.master().kill()
		w.run(8 * time.Second)
		w.queue.stop()
		w.run(15 * time.Second)
		w.queue.start()
		w.run(10 * time.Second)
		s.master().stop(10 * time.Second)
		w.finish(flow, 20*time.Minute)
	}
}

// Half a site is cut off, queue and all, and comes back.
func TestWorkSurvivesAPartition(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t, seed+1)
		s := w.addSite("siteA", nil)
		pilots := w.start(s, 6, 2)
		flow := w.submit("flow", tree(60)...)
		w.run(4 * time.Second)
		w.part(pilots[3:])
		for _, n := range pilots[3:] {
			n.cutOff(true)
		}
		w.run(time.Minute)
		w.part(nil)
		for _, n := range pilots[3:] {
			n.cutOff(false)
		}
		w.finish(flow, 30*time.Minute)
	}
}
