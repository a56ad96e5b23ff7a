package taskqueue_test

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// A pilot held for dead is there again and reports that its attempt, booked as
// lost, has failed. Its task goes back if a master says so that has not begun it
// anew; what came before in the same Sync counts.
func TestFailuresOfPilotsHeldForDead(t *testing.T) {
	for name, example := range map[string]struct {
		anew      bool // another pilot has begun it
		gone      bool // that one is dead too, in the Sync that brings the failure
		delivered bool // the pilot tells the queue itself
		want      task.LeaseID
	}{
		"given up":           {want: 2},
		"begun anew":         {anew: true, want: 1},
		"begun anew in vain": {anew: true, gone: true, want: 2},
		"delivered":          {delivered: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrid(t)
			a := g.addSite("A")
			a.join("master", 1)
			first, second := a.join("first", 1), a.join("second", 1)
			w := g.mustSubmit(taskqueue.Submission{Name: "bag", Tasks: []task.Task{job("one", nil, nil)}})
			one := task.NewID(w, "one")
			a.sync()
			again := a.leases[1][one]
			lost := a.start(one, first)
			a.sync()
			a.next.Departed = []task.Departure{{Pilot: first.id, Dead: true, Reason: "no answer"}}
			a.sync()
			if example.anew {
				a.leases[1][one] = again
				a.start(one, second)
			}
			if example.gone {
				a.sync()
				a.next.Departed = []task.Departure{{Pilot: second.id, Dead: true, Reason: "no answer"}}
			}
			failed := a.fail(lost, task.PayloadFailed)
			if example.delivered {
				g.must(func(turn *taskqueue.Turn) error {
					_, err := g.rules.Deliver(turn, taskqueue.Delivery{Site: "A", Pilot: first.id, Outcomes: []task.Outcome{failed}})
					return err
				})
			} else {
				a.ended = append(a.ended, failed)
				a.sync()
			}
			if s := g.state(one); s.State != task.Leased || s.Lease != example.want {
				t.Errorf("it is %s under lease %d, want LEASED under %d", s.State, s.Lease, example.want)
			}
			g.check()
		})
	}
}

func TestFailuresUseUpRetriesAndCancelDependants(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{
		Name: "bad",
		Tasks: []task.Task{
			job("one", nil, []string{"x"}), job("two", []string{"x"}, []string{"y"}), job("three", []string{"y"}, nil),
			job("other", nil, nil),
		},
	})
	one, two, three := task.NewID(w, "one"), task.NewID(w, "two"), task.NewID(w, "three")
	for i := range 3 {
		a.sync()
		if i < 2 {
			g.expect(task.Leased, one)
		}
		o := a.fail(a.start(one, a.members[0]), task.PayloadFailed)
		a.end(one, o)
		a.sync()
		if i < 2 {
			s := g.state(one)
			if s.State != task.Ready || s.NotBefore <= g.clock {
				t.Fatalf("after failure %d: %s, backoff %s", i+1, s.State, s.NotBefore.Sub(g.clock))
			}
			g.tick(time.Minute)
		}
	}
	g.expect(task.Failed, one)
	g.expect(task.Cancelled, two, three)
	if up := g.state(three).Upstream; up != one {
		t.Errorf("three names %q as its upstream, want the task that failed", up)
	}
	g.check()
	g.must(func(turn *taskqueue.Turn) error {
		n, err := g.rules.RetryWorkflow(turn, w, true)
		if n != 3 {
			t.Errorf("%d tasks reopened, want 3", n)
		}
		return err
	})
	g.check()
	a.sync()
	a.work()
	a.sync()
	g.expect(task.Done, one, two, three)
	if s := g.state(one); s.Generation != 2 {
		t.Errorf("generation %d after retry, want 2", s.Generation)
	}
	g.check()
}

func TestFaultsOfPilotsAndStorageAreNotTheTasks(t *testing.T) {
	for kind, free := range map[task.FailureKind]int{task.PilotFailed: 10, task.StorageFailed: 120} {
		t.Run(kind.String(), func(t *testing.T) { testFreeFaults(t, kind, free) })
	}
}

// A task survives so many faults, and its own retries after that.
func testFreeFaults(t *testing.T, kind task.FailureKind, free int) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peerA", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "one", Tasks: []task.Task{job("t", nil, nil)}})
	id := task.NewID(w, "t")
	const retries = 2
	for i := range free + retries + 1 {
		a.sync()
		if g.state(id).State != task.Leased {
			t.Fatalf("after %d faults: %s", i, g.state(id).State)
		}
		a.end(id, a.fail(a.start(id, a.members[0]), kind))
		a.sync()
		g.tick(2 * time.Minute)
	}
	g.expect(task.Failed, id)
	g.check()
}

func TestPoisonousTaskIsQuarantined(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("master", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "one", Tasks: []task.Task{job("t", nil, []string{"x"}), job("u", []string{"x"}, nil)}})
	id := task.NewID(w, "t")
	a.sync()
	for i := range 3 {
		a.lose(id, i)
	}
	g.expect(task.Quarantined, id)
	g.expect(task.Cancelled, task.NewID(w, "u"))
	if len(a.reply.Revoked) == 0 {
		t.Error("the site is not told to stop")
	}
	g.check()
}
