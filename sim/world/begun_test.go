package world

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// long makes payloads run for a minute and submits sixteen of them.
func long(w *world) task.WorkflowID {
	w.run1 = func(task.ID, *node) time.Duration { return time.Minute }
	return w.submit("flow", tree(8)...)
}

// runningAt lists the attempts that the queue takes for running at a pilot.
func (q *queue) runningAt(n *node) (running []taskqueue.Attempt) {
	q.view(func(t *taskqueue.Turn) (err error) {
		running, err = t.Attempts().RunningAt(n.id)
		return err
	})
	return running
}

// What has begun at a pilot that left, and was never told of its end, is lost.
func TestNothingRunsAtAPilotThatLeft(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 4, 1)
	flow := long(w)
	w.run(10 * time.Second)
	gone := pilots[slices.IndexFunc(pilots, func(n *node) bool { return len(n.payloads) > 0 && s.master() != n })]
	if len(w.queue.runningAt(gone)) == 0 {
		t.Fatal("the queue does not know what has begun")
	}
	if err := w.queue.Update(func(t *taskqueue.Turn) error {
		return w.queue.Rules.Leave(t, taskqueue.Leaving{Pilot: gone.id, Site: s.name, Reason: "told to stop"})
	}); err != nil {
		t.Fatal(err)
	}
	gone.kill()
	if running := w.queue.runningAt(gone); len(running) > 0 {
		t.Errorf("%d attempts run at a pilot that left", len(running))
	}
	w.finish(flow, 20*time.Minute)
	for _, state := range w.queue.tasks(flow) {
		if state.Losses > 0 {
			t.Errorf("%s bears that a pilot left", state.ID)
		}
	}
}

// The queue hears of the start of an attempt after it was told that the pilot is
// dead: the attempt is lost as well.
func TestALateStartAtADeadPilotIsLost(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 4, 1)
	flow := long(w)
	w.runUntil(time.Minute, func() bool { return len(w.started) > 0 })
	gone := pilots[slices.IndexFunc(pilots, func(n *node) bool { return len(n.payloads) > 0 })]
	start := task.Start{Number: 1, Started: w.net.Now()}
	for start.Attempt = range gone.payloads {
	}
	gone.kill()
	w.runUntil(time.Minute, func() bool { return w.queue.pilot(gone.id).State == taskqueue.PilotDead })
	office := w.queue.site(s.name)
	w.queue.must(func(t *taskqueue.Turn) error {
		_, err := w.queue.Rules.Sync(t, task.Sync{Site: s.name, Pilot: office.Master, Term: office.Term, Starts: []task.Start{start}})
		return err
	})
	if running := w.queue.runningAt(gone); len(running) > 0 {
		t.Errorf("%d attempts run at a dead pilot", len(running))
	}
	w.finish(flow, 20*time.Minute)
}

// Half a site is cut off and runs what the other half runs; when the parts meet,
// one of two attempts has to end. The queue hears the end of both.
func TestWhatIsKilledForAnotherAttemptEnds(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 4, 2)
	flow := long(w)
	w.run(5 * time.Second)
	w.part(pilots[2:])
	w.run(55 * time.Second)
	w.part(nil)
	w.finish(flow, 20*time.Minute)
	w.run(5 * time.Minute)
	for _, state := range w.queue.tasks(flow) {
		for _, a := range w.queue.attempts(state.ID) {
			if a.State == taskqueue.AttemptRunning {
				t.Errorf("%s runs still", a.Outcome.Attempt)
			}
		}
	}
}

// A pilot is stopped for a while and counts as gone; what it ran runs again, and is
// killed there when it goes on. How long that took is booked as wasted.
func TestTheTimeOfLostAttemptsIsBooked(t *testing.T) {
	w := newWorld(t, 1)
	s := w.addSite("siteA", nil)
	w.start(s, 4, 2)
	w.run1 = func(task.ID, *node) time.Duration { return 30 * time.Second }
	flow := w.submit("flow", tree(8)...)
	w.run(5 * time.Second)
	for _, n := range s.live() {
		if len(n.payloads) > 0 && n != s.master() {
			n.pause()
			w.after(20*time.Second, n.resume)
			break
		}
	}
	w.finish(flow, 20*time.Minute)
	w.run(5 * time.Minute)
	if w.queue.site(s.name).Sums.Wasted == 0 {
		t.Error("nothing was wasted: this tests nothing")
	}
	w.judgeUse()
}

// Most of a site is cut off from the queue and from one pilot, and goes on with the
// hand-out; so does the one, as master: both have first attempts of the same tasks.
// Each attempt has a number of its own at the queue.
func TestAttemptsOfTwoPartsHaveNumbersOfTheirOwn(t *testing.T) {
	several := 0
	for seed := range uint64(3) {
		w, flow := meetAgain(t, seed+1)
		w.run(5 * time.Minute)
		for _, state := range w.queue.tasks(flow) {
			if w.judgeNumbers(state.ID) > 1 {
				several++
			}
		}
	}
	if several == 0 {
		t.Error("no task was run twice")
	}
}

// A task whose attempt at a pilot is to be killed, as another pilot has the task, may be
// given to that pilot again before its attempt has ended: it runs.
func TestATaskIsGivenAgainWhereItsAttemptIsBeingKilled(t *testing.T) {
	for seed := range uint64(24) {
		meetAgain(t, seed+30)
	}
}

// meetAgain plays a workflow at a site whose two parts go on, each with a master, until
// they meet after three minutes.
func meetAgain(t *testing.T, seed uint64) (w *world, flow task.WorkflowID) {
	w = newWorld(t, seed)
	s := w.addSite("siteA", nil)
	pilots := w.start(s, 4, 2)
	flow = long(w)
	w.run(5 * time.Second)
	w.part(pilots[:3])
	for _, n := range pilots[:3] {
		n.cutOff(true)
	}
	w.run(3 * time.Minute)
	w.part(nil)
	for _, n := range pilots[:3] {
		n.cutOff(false)
	}
	w.finish(flow, 20*time.Minute)
	return w, flow
}
