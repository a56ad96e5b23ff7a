package taskqueue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Where the queue matches, slots of a pilot are kept for a task of all its cores
// after the wait, although small tasks never run out.
func TestQueueKeepsSlotsForABigTask(t *testing.T) {
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
		big := job("big", nil, nil)
		big.Resources.Cores, big.Priority = 4, 100
		huge := job("huge", nil, nil)
		huge.Resources.Cores, huge.Priority = 64, 200
		w := d.mustSubmit(taskqueue.Submission{Name: "big", Tasks: []task.Task{big, huge}})
		d.maker.Changed(&d.effects)
		id, kept := task.NewID(w, "big"), false
		var took time.Duration
		for took < 10*time.Minute && d.state(id).State == task.Ready {
			took += 5 * time.Second
			d.clock = d.clock.Add(5 * time.Second)
			for _, p := range pilots { // a slot at a time becomes free
				if len(p.inHand) > 0 {
					p.finish(p.inHand[0].Task.ID)
				}
				p.pull()
			}
			var e taskqueue.Explanation
			d.view(func(t *taskqueue.Turn) (err error) { e, err = d.rules.Explain(t, id); return err })
			for i := range e.Sites {
				d.maker.Explain(&e.Sites[i], id)
				kept = kept || strings.Contains(e.Sites[i].Why, "kept free for it")
			}
		}
		// After the wait what runs at the pilot ends, a slot every 5 s.
		if limit := d.rules.Config.Match.ReserveAfter + 25*time.Second; took > limit {
			t.Errorf("%s: it is given out after %s, want at most %s", solver, took, limit)
		}
		if !kept {
			t.Errorf("%s: nobody is told that slots are kept for it", solver)
		}
		at := slices.IndexFunc(pilots, func(p *solo) bool { return p.of[id] != 0 })
		if at >= 0 && len(pilots[1-at].inHand) != 4 {
			t.Errorf("%s: the other pilot has %d tasks, want 4", solver, len(pilots[1-at].inHand))
		}
	}
}
