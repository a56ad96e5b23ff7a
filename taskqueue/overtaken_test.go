package taskqueue_test

import (
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// A call that its master has given up, and that the queue carries out after a later one,
// tells of nothing: that a pilot is gone which is there again, or that an attempt runs
// whose outcome the queue did not know what to do with.
func TestACallThatWasOvertakenTellsNothing(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer1", 1)
	other := a.join("peer2", 1)
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}})
	a.next.Number = 1
	a.sync()

	late := a.message()
	late.Number = 2
	late.Departed = []task.Departure{{Pilot: other.id, Dead: true, Reason: "no answer"}}
	for id := range a.leases {
		late.Starts = []task.Start{{Attempt: task.AttemptID{Task: task.NewID(w, "t"), Generation: 1, Lease: id, Pilot: other.id, Counter: 1}}}
	}
	if len(late.Starts) != 1 {
		t.Fatalf("%d leases", len(a.leases))
	}
	a.next.Number, other.listed = 3, false
	a.sync()
	idle := a.message() // without news: it has the number of the last one with some
	idle.Number, idle.Joined, idle.Capacity.Slots = 1, nil, 99
	g.must(func(t *taskqueue.Turn) error { _, err := g.rules.Sync(t, idle); return err })
	g.must(func(t *taskqueue.Turn) error {
		reply, err := g.rules.Sync(t, late)
		if len(reply.Leases)+len(reply.Acks) > 0 {
			g.t.Errorf("it is answered %+v", reply)
		}
		return err
	})
	if n := g.siteRecord("A").Pilots; n != 2 {
		t.Errorf("the queue counts %d pilots, want 2", n)
	}
	if slots := g.siteRecord("A").Capacity.Slots; slots != 2 {
		t.Errorf("the queue counts %d slots, want 2", slots)
	}
	if attempts := g.numbers(task.NewID(w, "t")); len(attempts) != 0 {
		t.Errorf("attempts that run nowhere: %+v", attempts)
	}
}

// The same holds where pilots speak for themselves.
func TestAPullThatWasOvertakenTellsNothing(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeIsolated))
	p := d.solo("A", "p1", 1)
	late := p.message()
	late.Number, late.Capacity.StoppedWhy = 1, "its time is over"
	p.version = 0
	p.news.Number = 2
	p.pull()
	d.serve(&late)
	d.view(func(t *taskqueue.Turn) error {
		found, err := t.Pilots().Load(p.id)
		if err == nil && found[0].Stopped != "" {
			d.t.Errorf("the pilot takes no work: %s", found[0].Stopped)
		}
		return err
	})
}
