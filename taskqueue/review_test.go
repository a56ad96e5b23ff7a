package taskqueue_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Wherever the review of all waiting tasks stands when a workflow is dropped,
// since its last part never came: what waits in older workflows is reviewed.
func TestReviewGoesOnWhereItsWorkflowIsDropped(t *testing.T) {
	for pages := range 12 { // before the drop
		g := newGrid(t)
		smallPages(g)
		g.rules.Config.Workflow.UnsealedFor = time.Minute
		names := []string{"x", "y", "z"}
		g.addSite("B")
		g.addSite("C", func(s *taskqueue.SiteRecord) { s.RemoteRead = false })
		for _, w := range []string{"old", "unsealed", "new"} {
			s := taskqueue.Submission{Name: w, Key: w, More: w == "unsealed", Files: []task.File{at("in", 1, "B")}}
			for _, name := range names {
				s.Tasks = append(s.Tasks, job(w+name, []string{"in"}, nil))
			}
			g.mustSubmit(s)
		}
		a := g.addSite("A") // what only B could run, A may
		for range pages {
			g.tick(0)
		}
		for g.tick(2 * time.Minute); g.due() <= g.clock; g.tick(0) {
		}
		a.join("peer", 100)
		a.sync()
		if held := a.held(); len(held) != 6 || !slices.Contains(held, "oldz") {
			t.Errorf("the drop after %d pages of the review: A holds %v", pages, held)
		}
		g.check()
	}
}

// due is when the rules want the next tick.
func (g *grid) due() (at taskqueue.Instant) {
	g.t.Helper()
	g.view(func(t *taskqueue.Turn) (err error) {
		at, err = g.rules.Deadline(t, false)
		return err
	})
	return at
}
