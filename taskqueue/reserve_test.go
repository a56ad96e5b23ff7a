package taskqueue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Where the queue matches, a task of all cores of a pilot goes to a full one after the
// wait, although small tasks never run out; the next one when the first has begun.
func TestBigTaskGoesToAFullPilot(t *testing.T) {
	for _, solver := range []string{"", "greedy", "exact", "choose(2)"} {
		d := newDesk(newGrid(t))
		d.addSite("A", func(s *taskqueue.SiteRecord) { s.Mode, s.Solver = taskqueue.ModeCentralized, solver })
		pilots := []*solo{d.solo("A", "p1", 4), d.solo("A", "p2", 4)}
		small := taskqueue.Submission{Name: "small"}
		for i := range 400 {
			small.Tasks = append(small.Tasks, job(fmt.Sprintf("t%d", i), nil, nil))
		}
		d.mustSubmit(small)
		d.maker.Changed(&d.effects)
		for _, p := range pilots {
			p.pull()
		}
		big, other, huge := job("big", nil, nil), job("other", nil, nil), job("huge", nil, nil)
		big.Resources.Cores, other.Resources.Cores, huge.Resources.Cores = 4, 4, 64
		big.Priority, other.Priority, huge.Priority = 100, 50, 200
		w := d.mustSubmit(taskqueue.Submission{Name: "big", Tasks: []task.Task{other, big, huge}})
		d.maker.Changed(&d.effects)
		// A slot at a time becomes free, and a small task takes it.
		given := func(name string, limit time.Duration) (took time.Duration) {
			for took < limit && d.state(task.NewID(w, name)).State == task.Ready {
				took += 5 * time.Second
				d.clock = d.clock.Add(5 * time.Second)
				for _, p := range pilots {
					p.finish(p.inHand[0].Task.ID)
					p.pull()
				}
			}
			return took
		}
		wait := d.rules.Config.Match.ReserveAfter
		if took := given("big", 2*wait); took < wait || took > wait+5*time.Second {
			t.Errorf("%s: it is given out after %s, want %s", solver, took, wait)
		}
		for i, p := range pilots {
			keeps := p.of[task.NewID(w, "big")] != 0
			if want := map[bool]int{true: 5, false: 4}[keeps]; len(p.inHand) != want {
				t.Errorf("%s: pilot %d has %d tasks, want %d", solver, i, len(p.inHand), want)
			}
		}
		for _, p := range pilots {
			p.pull()
		}
		if state := d.state(task.NewID(w, "other")).State; state != task.Ready {
			t.Errorf("%s: slots are kept for two tasks at once: the other is %s", solver, state)
		}
		for _, p := range pilots {
			if id := task.NewID(w, "big"); p.of[id] != 0 {
				p.finish(id)
			}
		}
		if given("other", 10*time.Second); d.state(task.NewID(w, "other")).State != task.Leased {
			t.Errorf("%s: the other is not given out when the first has ended", solver)
		}
		if state := d.state(task.NewID(w, "huge")).State; state != task.Ready {
			t.Errorf("%s: what no pilot can run is %s", solver, state)
		}
	}
}
