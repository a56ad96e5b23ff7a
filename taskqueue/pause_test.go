package taskqueue_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// A site whose pilots take no work, by their own policies, gets none, and the
// queue says why: of the pilots, and of tasks that wait.
func TestPilotsThatTakeNoWork(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	p, q := a.join("p", 2), a.join("q", 2)
	a.sync()
	const why = "its own policy declines: load < 0.5"
	a.pause(p, why)
	a.sync()
	w := g.mustSubmit(submission(12))
	explain := func(n int) (x taskqueue.SiteExplanation) {
		g.view(func(turn *taskqueue.Turn) error {
			e, err := g.rules.Explain(turn, task.NewID(w, fmt.Sprint("t", n)))
			if err == nil {
				x = e.Sites[0]
			}
			return err
		})
		return x
	}
	stopped := func(m *member) (why string) {
		g.view(func(turn *taskqueue.Turn) error {
			found, err := turn.Pilots().Load(m.id)
			if err == nil {
				why = found[0].Stopped
			}
			return err
		})
		return why
	}
	if stopped(p) != why || stopped(q) != "" {
		t.Errorf("of the pilots it is said %q and %q", stopped(p), stopped(q))
	}
	a.sync()
	if len(a.held()) == 0 {
		t.Fatal("one pilot is left, and gets nothing")
	}
	if x := explain(0); !strings.HasSuffix(x.Why, "1 of 2 pilots takes no new work") || x.Quoted != ": "+why {
		t.Errorf("a task that waits at the site: %q", x.Why)
	}
	for lease, tasks := range a.leases { // as a master does that has nobody left
		for id, lt := range tasks {
			a.next.Returns = append(a.next.Returns, task.Returned{Task: id, Generation: lt.Generation, Lease: lease})
			delete(tasks, id)
		}
	}
	a.pause(q, why)
	if a.sync(); len(a.held()) > 0 {
		t.Errorf("%d tasks are handed to a site that takes none", len(a.held()))
	}
	if x := explain(0); !x.Eligible || !strings.Contains(x.Why, "takes no work at the moment: 2 of 2 pilots") {
		t.Errorf("a task that nobody takes: %+v", x)
	}
	p.listed = false // another master meets it, and it takes work again
	p.stopped = ""
	if a.sync(); len(a.held()) == 0 || stopped(p) != "" {
		t.Errorf("%d tasks for a pilot that works again; it is said to be stopped by %q", len(a.held()), stopped(p))
	}
	g.check()
}

// Where the queue matches, each pilot tells of itself.
func TestAPilotThatTakesNoWorkWhereTheQueueMatches(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	p := d.solo("A", "p1", 1)
	w := d.mustSubmit(submission(1))
	d.maker.Changed(&d.effects)
	tells := func(why string) []task.ID {
		m := p.message()
		if why != "" {
			m.Places = task.Places{}
			m.Capacity = task.Capacity{Pilots: 1, Stopped: 1, StoppedSlots: 1, StoppedWhy: why}
		}
		return p.take(&m, d.serve(&m))
	}
	if got := tells("load < 0.5"); len(got) > 0 {
		t.Errorf("it is given %v", got)
	}
	d.view(func(turn *taskqueue.Turn) error {
		found, err := turn.Pilots().Load(p.id)
		if err != nil || found[0].Stopped != "load < 0.5" {
			t.Errorf("the pilot is %+v, %v", found, err)
		}
		e, err := d.rules.Explain(turn, task.NewID(w, "t0"))
		if err != nil || !strings.Contains(e.Sites[0].Why, "takes no work at the moment: 1 of 1 pilot takes no new work") {
			t.Errorf("the task is %+v, %v", e.Sites, err)
		}
		return nil
	})
	if got := tells(""); len(got) != 1 {
		t.Errorf("working again it is given %v", got)
	}
}

func submission(tasks int) taskqueue.Submission {
	s := taskqueue.Submission{Name: "w"}
	for n := range tasks {
		s.Tasks = append(s.Tasks, job(fmt.Sprint("t", n), nil, nil))
	}
	return s
}
