package world

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// singles are tasks of one core.
func singles(name string, count int) (tasks []task.Task) {
	for i := range count {
		tasks = append(tasks, one(fmt.Sprintf("%s%d", name, i)))
	}
	return tasks
}

func urgent(cores, priority int) func(*task.Task) {
	return func(t *task.Task) { t.Resources.Cores, t.Priority = cores, priority }
}

// startOf is when a task of a workflow starts, from now on; it fails the test
// when it has not within the limit.
func (w *world) startOf(flow task.WorkflowID, name string, limit time.Duration) time.Duration {
	id := task.ID(string(flow) + "/" + name)
	from := w.now()
	if !w.runUntil(limit, func() bool { return w.started[id] > 0 }) {
		w.judge.Fatalf("task %s has not started within %s", name, limit)
	}
	return w.now() - from
}

// Pilots full of tasks of one core, 1,600 more of them that come later: a task
// of all cores of a pilot begins after the wait and the longest task that runs.
func TestBigTaskStartsAmongSmallOnes(t *testing.T) {
	const run = time.Minute
	for _, sites := range []int{1, 2} {
		for _, priority := range []int{0, 100} {
			bound := master.DefaultConfig().Placing.ReserveAfter + run + 5*time.Second
			w := newWorld(t, 1)
			w.run1 = func(task.ID, *node) time.Duration { return run }
			for i := range sites {
				w.start(w.addSite(task.Site(fmt.Sprintf("site%d", i)), nil), 2, 8)
			}
			w.submit("before", singles("first", 32*sites)...)
			w.run(25 * time.Second)
			if priority == 0 {
				bound += 2 * run // those before it are older
			}
			big := w.submit("big", one("big", urgent(8, priority)))
			w.submit("after", singles("later", 1600)...)
			if took := w.startOf(big, "big", time.Hour); took > bound {
				t.Errorf("%d sites, priority %d: it begins after %s, want at most %s", sites, priority, took, bound)
			}
		}
	}
}

// Where the queue matches, the pilot that is given such a task keeps its slots for it.
func TestBigTaskStartsAmongSmallOnesWhereTheQueueMatches(t *testing.T) {
	t.Parallel()
	const run = time.Minute
	for _, mode := range []taskqueue.Mode{taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
		for _, prefill := range []int{0, taskqueue.NoPrefill} {
			w := newWorld(t, 1)
			w.run1 = func(task.ID, *node) time.Duration { return run/2 + time.Duration(w.random.Int64N(int64(run/2))) }
			s := w.addSite("site", func(r *taskqueue.SiteRecord) { r.Mode, r.Prefill = mode, prefill })
			w.start(s, 4, 8)
			w.submit("before", singles("first", 32)...)
			w.run(25 * time.Second)
			big := w.submit("big", one("big", urgent(8, 100)))
			w.submit("after", singles("later", 1600)...)
			bound := w.queue.config.Match.ReserveAfter + 2*run
			if took := w.startOf(big, "big", time.Hour); took > bound {
				t.Errorf("%s, prefill %d: it begins after %s, want at most %s", mode, prefill, took, bound)
			}
			w.run(2 * run)
			for _, n := range s.live() {
				if len(n.running()) < 7 {
					t.Errorf("%s, prefill %d: %s runs %d payloads of 8 afterwards", mode, prefill, n.id, len(n.running()))
				}
			}
		}
	}
}

// Slots are kept for two big tasks; the pilot that keeps them for one is killed,
// and one of the tasks is cancelled: the other begins in time, and no slot stays
// free for what is gone.
func TestKeptSlotsOutliveNobody(t *testing.T) {
	t.Parallel()
	const run = 40 * time.Second
	w := newWorld(t, 1)
	w.run1 = func(task.ID, *node) time.Duration { return run/2 + time.Duration(w.random.Int64N(int64(run/2))) }
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 16, 8)
	w.submit("before", singles("first", 16*8)...)
	w.run(20 * time.Second)
	first := w.submit("one", one("big", urgent(8, 100)))
	second := w.submit("two", one("big", urgent(8, 90)))
	w.submit("after", singles("later", 3000)...)
	w.run(45 * time.Second)
	keepers := 0
	for _, n := range pilots[1:] { // not the master
		if len(n.running()) < 7 {
			keepers++
			n.kill()
		}
	}
	if keepers != 2 {
		t.Fatalf("%d pilots keep slots, want 2", keepers)
	}
	w.queue.must(func(t *taskqueue.Turn) error {
		_, err := w.queue.Rules.CancelWorkflow(t, second)
		return err
	})
	w.startOf(first, "big", master.DefaultConfig().Placing.ReserveAfter+2*run)
	w.run(2 * run)
	for _, n := range s.live() {
		if len(n.running()) < 8 {
			t.Errorf("%s runs %d payloads of 8", n.id, len(n.running()))
		}
	}
}
