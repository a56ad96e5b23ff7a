package pilot_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// crowd003 is the site of 003's example (section 4, Fig. 4): p0 has the file
// and four slots, the others are busy with something else.
func crowd003(t *testing.T, replicate string, capacity task.Bytes) *world {
	w := newWorld(t.Errorf)
	w.queue.settings.Replicate, w.queue.settings.Prefill, w.queue.perSlot = replicate, 0, 100
	for i := 1; i < 4; i++ {
		w.add(task.PilotID(fmt.Sprint("p", i)), 1, nil).capacity = capacity
	}
	w.elect(w.node("p1"))
	w.run(time.Second)
	var busy []task.Task
	for i := range 3 {
		name := fmt.Sprint("busy", i)
		w.runs[name] = time.Hour
		busy = append(busy, task.Task{ID: id(name), Shell: "true", Walltime: 2 * time.Hour, Resources: task.Resources{Cores: 1}})
	}
	w.queue.submit(busy...)
	w.run(time.Second)
	holder := w.add("p0", 4, nil)
	for _, n := range w.nodes {
		n.stepWorker(worker.CacheChanged{Cache: n.usage()})
	}
	holder.stepWorker(worker.CacheChanged{Keys: holder.keep(*external(name("f")))})
	w.run(time.Second)
	return w
}

// submitReaders submits tasks that read one file and last long.
func (w *world) submitReaders(count int) {
	readers := make([]task.Task, count)
	for i := range readers {
		short := fmt.Sprint("r", i)
		w.runs[short] = time.Hour
		readers[i] = task.Task{
			ID: id(short), Shell: "true", Walltime: 2 * time.Hour, Resources: task.Resources{Cores: 1},
			Inputs: []task.Input{{LFN: name("f"), Name: "f"}},
		}
	}
	w.queue.submit(readers...)
	w.run(5 * time.Second)
}

// replicas counts the copies of a file that pilots were told to make.
func (w *world) replicas() (count int) {
	for _, n := range w.nodes {
		count += len(n.copied)
	}
	return count
}

// 003 (section 4, Fig. 4): of 40 tasks on one file 4 run and 36 wait; alpha 20,
// 15, 10 and 5 make 0, 1, 2 and 3 new copies, each once and at another pilot,
// and the queue hears of them.
func TestALiveSiteMakesTheCopiesOf003(t *testing.T) {
	for alpha, copies := range map[int]int{20: 0, 15: 1, 10: 2, 5: 3, 0: 3} {
		w := crowd003(t, fmt.Sprintf("alpha(%d)", alpha), task.GiB)
		w.submitReaders(40)
		if running := w.node("p0").worker.Running(); running != 4 {
			t.Fatalf("alpha %d: %d of the tasks run", alpha, running)
		}
		if got := w.replicas(); got != copies {
			t.Errorf("alpha %d: %d copies, want %d", alpha, got, copies)
		}
		if got, want := w.queue.replicas, (task.ReplicaSum{Files: uint64(copies), Bytes: task.Bytes(copies) * task.MiB}); got != want {
			t.Errorf("alpha %d: the queue hears of %+v, want %+v", alpha, got, want)
		}
		for _, n := range w.nodes {
			if len(n.copied) > 1 {
				t.Errorf("alpha %d: %s copies %v", alpha, n.id, n.copied)
			}
		}
	}
}

// Without policies nobody tells what it has, and nothing is copied; policies
// that come later find out by themselves.
func TestReplicaPoliciesOfALiveSiteChange(t *testing.T) {
	w := crowd003(t, "", task.GiB)
	w.submitReaders(40)
	if got := w.replicas(); got != 0 {
		t.Fatalf("%d copies without a policy", got)
	}
	w.queue.settings.Replicate = "alpha(10)"
	for _, n := range w.nodes {
		n.stepWorker(worker.SiteChanged{Settings: w.queue.settings})
	}
	w.run(10 * time.Second)
	if got := w.replicas(); got != 2 {
		t.Errorf("%d copies by alpha 10, want 2", got)
	}
}

// Replicas take half of a cache at most; where the first cannot be made the
// next pilot is told.
func TestReplicasAreBounded(t *testing.T) {
	w := crowd003(t, "alpha(5)", task.MiB)
	w.submitReaders(40)
	if got := w.replicas(); got != 0 {
		t.Errorf("%d copies of 1 MiB into caches of 1 MiB", got)
	}
	w = crowd003(t, "alpha(10)", 2*task.MiB)
	w.node("p1").full = true
	w.submitReaders(40)
	if got := w.replicas(); got != 2 || len(w.node("p1").copied) > 0 {
		t.Errorf("%d copies, %v at p1, which is full", got, w.node("p1").copied)
	}
}

// A pilot that never answers an order to copy loses its plan after a while, and
// the tasks of that go on elsewhere (002 has a plan stage in before its tasks).
func TestAPilotThatNeverCopiesLosesItsPlan(t *testing.T) {
	w := newWorld(t.Errorf)
	w.queue.settings.Replicate, w.queue.settings.Prefill, w.queue.settings.LocalityWait = "plans(100,4)", 0, 0
	for _, id := range []task.PilotID{"p1", "p2", "p3"} {
		w.add(id, 1, nil).capacity = task.GiB
	}
	w.elect(w.node("p3"))
	w.run(time.Second)
	holder := w.node("p3")
	holder.stepWorker(worker.CacheChanged{Keys: holder.keep(*external(name("f"))), Cache: holder.usage()})
	w.node("p1").mute, w.node("p2").mute = true, true
	w.run(time.Second)
	var busy []task.Task
	for i := range 3 {
		short := fmt.Sprint("busy", i)
		w.runs[short] = 20 * time.Second
		busy = append(busy, task.Task{ID: id(short), Shell: "true", Walltime: time.Hour, Resources: task.Resources{Cores: 1}})
	}
	w.queue.submit(busy...)
	w.run(time.Second)
	w.submitReaders(8) // that last longer than the test
	w.run(time.Minute)
	idle := func() (count int) {
		for _, n := range w.nodes {
			count += 1 - min(1, n.worker.Running())
		}
		return count
	}
	if idle() == 0 {
		t.Fatal("no pilot is kept for a plan: the test proves nothing")
	}
	if !w.runUntil(15*time.Minute, func() bool { return idle() == 0 }) {
		t.Errorf("after 15 minutes %d pilots are still kept for plans although they never copy, and tasks wait", idle())
	}
}
