package world

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func withoutStorage(s *taskqueue.SiteRecord) { s.SE = "" }

func makers(n int, change ...func(*task.Task)) (tasks []task.Task) {
	for i := range n {
		name := fmt.Sprintf("o%02d", i)
		tasks = append(tasks, one("t"+name, append(change, makes(name))...))
	}
	return tasks
}

// Where no site has a storage element, a workflow ends when its tasks have: its
// final outputs are in caches, and nowhere else to go. A storage element that
// comes gets them.
func TestWorkflowEndsWhereNothingIsStored(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", withoutStorage)
	w.start(s, 3, 2)
	flow := w.submit("flow", makers(20)...)
	if !w.runUntil(5*time.Minute, func() bool { return w.queue.workflow(flow).Over() }) {
		t.Fatalf("it is not over: %+v", w.queue.workflow(flow))
	}
	found := w.queue.workflow(flow)
	if found.Finished() || found.Homeless != 20 || found.Unstored != 20 || found.Ended.IsZero() {
		t.Fatalf("%+v", found)
	}
	w.queue.must(func(t *taskqueue.Turn) error {
		_, err := w.queue.Rules.AddSite(t, taskqueue.SiteRecord{Name: "siteA", SiteSettings: taskqueue.SiteSettings{SE: "file:///siteA", RemoteRead: true}})
		return err
	})
	w.finish(flow, 5*time.Minute)
	if runs := len(w.started); runs != 20 {
		t.Errorf("%d tasks ran", runs)
	}
}

// Pilots that leave take with them what only they had. A workflow that is over
// does not begin anew by itself where nobody could store what it makes again: its
// tasks have failed, and a retry runs them.
func TestLostOutputsOfAnEndedWorkflow(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", withoutStorage)
	first := w.start(s, 2, 2)
	flow := w.submit("flow", makers(10)...)
	if !w.runUntil(5*time.Minute, func() bool { return w.queue.workflow(flow).Over() }) {
		t.Fatalf("it is not over: %+v", w.queue.workflow(flow))
	}
	for _, n := range first {
		n.kill()
	}
	w.run(20 * time.Minute)
	w.start(s, 2, 2)
	w.run(5 * time.Minute)
	found := w.queue.workflow(flow)
	if !found.Over() || found.Counts[task.Failed] != 10 || len(w.started) != 10 {
		t.Fatalf("%d payloads started: %+v", len(w.started), found)
	}
	w.queue.must(func(t *taskqueue.Turn) error {
		_, err := w.queue.Rules.RetryWorkflow(t, flow, true)
		return err
	})
	if !w.runUntil(5*time.Minute, func() bool { return w.queue.workflow(flow).Homeless == 10 && w.queue.workflow(flow).Over() }) {
		t.Fatalf("it is not over: %+v", w.queue.workflow(flow))
	}
}

// Where some sites have a storage element, the makers of final outputs go there,
// however many slots others have.
func TestFinalOutputsAreMadeWhereTheyAreKept(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(t, seed+1)
		a, b := w.addSite("siteA", nil), w.addSite("siteB", withoutStorage)
		w.start(a, 1, 2)
		w.start(b, 3, 4)
		flow := w.submit("flow", makers(20)...)
		w.finish(flow, 10*time.Minute)
		if len(a.stored) != 20 || len(w.started) != 20 {
			t.Errorf("seed %d: %d are stored, %d ran", seed, len(a.stored), len(w.started))
		}
	}
}

// They do not wait where nobody who could keep the outputs can run them: there is
// nobody, or none of them fits.
func TestFinalOutputsAreMadeAnywhereRatherThanNever(t *testing.T) {
	for name, small := range map[string]bool{"nobody": false, "too small": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			a, b := w.addSite("siteA", nil), w.addSite("siteB", withoutStorage)
			if small {
				w.start(a, 2, 2)
			}
			w.start(b, 1, 8)
			flow := w.submit("flow", makers(6, func(t *task.Task) { t.Resources.Cores = 4 })...)
			if !w.runUntil(10*time.Minute, func() bool { return w.queue.workflow(flow).Over() }) {
				t.Fatalf("it is not over: %+v", w.queue.workflow(flow))
			}
			if found := w.queue.workflow(flow); found.Homeless != 6 {
				t.Errorf("%+v", found)
			}
		})
	}
}

// chains are twelve files, each made of another.
func chains() (tasks []task.Task) {
	for i := range 12 {
		middle, end := fmt.Sprintf("m%02d", i), fmt.Sprintf("e%02d", i)
		tasks = append(tasks, one("t"+middle, makes(middle)), one("t"+end, reads(middle), makes(end)))
	}
	return tasks
}

// What leads to final outputs begins where these are kept: a site with storage cannot
// read what only caches of another site have, so a chain ends where it has begun.
func TestChainsBeginWhereTheirEndsAreKept(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(t, seed+1)
		a, b := w.addSite("siteA", nil), w.addSite("siteB", withoutStorage)
		w.start(a, 1, 2)
		w.start(b, 3, 4)
		flow := w.submit("flow", chains()...)
		w.finish(flow, 10*time.Minute)
		if found := w.queue.workflow(flow); found.Homeless != 0 || len(w.started) != 24 {
			t.Errorf("seed %d: %d ran: %+v", seed, len(w.started), found)
		}
	}
}

// A site without storage that is drained finishes what it holds. What waits for files
// that only its caches have does not wait for the end of its pilots: these are made
// again elsewhere.
func TestADrainedSiteWithoutStorageKeepsNoTasksWaiting(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(t, seed+1)
		w.run1 = func(task.ID, *node) time.Duration { return 5 * time.Second }
		a, b := w.addSite("siteA", nil), w.addSite("siteB", withoutStorage)
		w.start(b, 2, 1)
		tasks := chains()
		for i := range tasks { // so that more readers of files are there than the site holds
			if len(tasks[i].Inputs) > 0 {
				continue
			}
			tasks[i].Priority = 1
			for n := range 3 {
				file := string(tasks[i].Outputs[0].LFN)
				tasks = append(tasks, one(fmt.Sprintf("r%d-%s", n, file), reads(file), makes(fmt.Sprintf("f%d-%s", n, file))))
			}
		}
		flow := w.submit("flow", tasks...)
		if !w.runUntil(10*time.Minute, func() bool { return len(w.ended) >= 4 }) {
			t.Fatalf("%d have ended", len(w.ended))
		}
		w.queue.must(func(t *taskqueue.Turn) error { return w.queue.Rules.DrainSite(t, b.name, true) })
		ran := len(w.started)
		w.start(a, 2, 2)
		if !w.runUntil(10*time.Minute, func() bool { return w.queue.workflow(flow).Counts[task.Done] == len(tasks) }) {
			t.Fatalf("seed %d: tasks wait: %v", seed, w.queue.workflow(flow).Counts)
		}
		if len(w.queue.alive(b.name)) != 2 {
			t.Errorf("seed %d: the pilots of siteB have gone", seed)
		}
		again := 0
		for _, n := range w.started {
			again += n - 1
		}
		if again == 0 || again > ran {
			t.Errorf("seed %d: %d had begun when the site was drained, %d were made again", seed, ran, again)
		}
		for _, n := range b.live() { // final outputs that only its caches have
			n.kill()
		}
		w.finish(flow, time.Hour)
	}
}

// Chains that have begun before there was a site with storage end without it: only
// caches have what they read. The workflow is over all the same, and when their pilots
// go the rest is made where it is kept.
func TestChainsEndWithoutStorageAndAreRemadeWithIt(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.addSite("siteA", nil), w.addSite("siteB", withoutStorage)
	others := w.start(b, 2, 4)
	flow := w.submit("flow", chains()...)
	if !w.runUntil(10*time.Minute, func() bool { return len(w.started) > 8 }) {
		t.Fatalf("%d have begun", len(w.started))
	}
	w.start(a, 2, 2)
	if !w.runUntil(10*time.Minute, func() bool { return w.queue.workflow(flow).Over() }) {
		t.Fatalf("it is not over: %+v", w.queue.workflow(flow))
	}
	if found := w.queue.workflow(flow); found.Homeless == 0 {
		t.Fatalf("nothing ended at siteB: %+v", found)
	}
	for _, n := range others {
		n.kill()
	}
	w.finish(flow, time.Hour)
}

// apart submits a join of twelve files whose makers two sites without storage share.
func apart(t *testing.T, seed uint64) (w *world, a, b *site, flow task.WorkflowID) {
	t.Helper()
	w = newWorld(t, seed)
	a, b = w.addSite("siteA", withoutStorage), w.addSite("siteB", withoutStorage)
	w.start(a, 2, 2)
	w.start(b, 2, 2)
	join := one("join", makes("end"))
	tasks := makers(12)
	for i := range tasks {
		reads(tasks[i].Outputs[0].LFN.Local())(&join)
	}
	flow = w.submit("flow", append(tasks, join)...)
	if !w.runUntil(10*time.Minute, func() bool { return w.queue.workflow(flow).Over() }) {
		t.Fatalf("seed %d: it is not over: %+v", seed, w.queue.workflow(flow))
	}
	if found := w.queue.workflow(flow); found.Counts[task.Failed] != 1 || found.Counts[task.Done] != 12 {
		t.Fatalf("seed %d: %+v", seed, found)
	}
	return w, a, b, flow
}

func (w *world) retry(flow task.WorkflowID) {
	w.queue.must(func(t *taskqueue.Turn) error {
		_, err := w.queue.Rules.RetryWorkflow(t, flow, true)
		return err
	})
}

// A task whose inputs are in the caches of two sites without storage can run nowhere: it
// fails instead of waiting for ever. Where one of them gets a storage element a retry
// runs it.
func TestATaskBetweenTwoSitesWithoutStorageEnds(t *testing.T) {
	for seed := range uint64(3) {
		w, _, _, flow := apart(t, seed+1)
		w.retry(flow)
		if !w.runUntil(time.Minute, func() bool { return w.queue.workflow(flow).Over() }) {
			t.Fatalf("seed %d: after a retry it is not over: %+v", seed, w.queue.workflow(flow))
		}
		w.queue.must(func(t *taskqueue.Turn) error {
			_, err := w.queue.Rules.AddSite(t, taskqueue.SiteRecord{Name: "siteA", SiteSettings: taskqueue.SiteSettings{SE: "file:///siteA", RemoteRead: true}})
			return err
		})
		w.run(time.Minute)
		w.retry(flow)
		if !w.runUntil(10*time.Minute, func() bool { return w.queue.workflow(flow).Counts[task.Done] == 13 }) {
			t.Fatalf("seed %d: %+v", seed, w.queue.workflow(flow))
		}
	}
}

// Where one of them is drained, what it has is made again at the other.
func TestADrainedSiteWithoutStorageKeepsNoJoinWaiting(t *testing.T) {
	for seed := range uint64(3) {
		w, a, _, flow := apart(t, seed+1)
		w.queue.must(func(t *taskqueue.Turn) error { return w.queue.Rules.DrainSite(t, a.name, true) })
		w.retry(flow)
		if !w.runUntil(10*time.Minute, func() bool { return w.queue.workflow(flow).Counts[task.Done] == 13 }) {
			t.Fatalf("seed %d: %+v", seed, w.queue.workflow(flow))
		}
	}
}
