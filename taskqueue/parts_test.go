package taskqueue_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// drawJobs makes tasks of which some read what others make, or a file from
// outside, and some are bare.
func drawJobs(t *rapid.T) []task.Task {
	var jobs []task.Task
	var made []string
	for i := range rapid.IntRange(1, 12).Draw(t, "tasks") {
		var inputs, outputs []string
		if len(made) > 0 {
			inputs = rapid.SliceOfNDistinct(rapid.SampledFrom(made), 0, 2, rapid.ID[string]).Draw(t, "inputs")
		}
		if rapid.Bool().Draw(t, "reads") {
			inputs = append(inputs, "outside")
		}
		if rapid.Bool().Draw(t, "makes") {
			outputs = []string{fmt.Sprintf("f%d", i)}
			made = append(made, outputs...)
		}
		described := job(fmt.Sprintf("t%d", i), inputs, outputs)
		described.Priority = rapid.IntRange(0, 1).Draw(t, "priority")
		jobs = append(jobs, described)
	}
	return rapid.Permutation(jobs).Draw(t, "order")
}

// submitIn submits tasks in parts that end at the given places.
func (g *grid) submitIn(jobs []task.Task, ends []int) task.WorkflowID {
	g.t.Helper()
	var w task.WorkflowID
	from := 0
	for part, to := range append(ends, len(jobs)) {
		s := taskqueue.Submission{Name: "w", Key: "k", Part: part, More: part < len(ends), Tasks: jobs[from:to]}
		if part == len(ends) {
			s.Files = []task.File{at("outside", 1, "A")}
		}
		w, from = g.mustSubmit(s), to
	}
	return w
}

// stands is what of a task does not depend on how it was submitted.
type stands struct {
	state               task.State
	missing, generation int
	bare, memo          bool
	sites               []task.Site
	work                task.Class
}

func (g *grid) standing(w task.WorkflowID) map[string]stands {
	g.t.Helper()
	found := make(map[string]stands)
	g.view(func(turn *taskqueue.Turn) error {
		classes, err := turn.Files().Classes()
		if err != nil {
			return err
		}
		states, err := turn.Tasks().InWorkflow(w, 0, 100)
		for _, s := range states {
			at := stands{state: s.State, missing: s.Missing, generation: int(s.Generation), bare: s.Bare, memo: !s.MemoKey.IsZero()}
			if i := slices.IndexFunc(classes, func(e taskqueue.Eligibility) bool { return e.ID == s.Class }); i >= 0 && s.State == task.Ready {
				at.sites, at.work = classes[i].Sites, classes[i].Work
			}
			found[s.ID.Name()] = at
		}
		return err
	})
	return found
}

// However a workflow is cut in parts, its tasks stand the same once it is
// complete, and the same are handed out.
func TestPartsMakeNoDifference(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		jobs := drawJobs(r)
		var ends []int
		for range rapid.IntRange(1, 3).Draw(r, "parts") {
			ends = append(ends, rapid.IntRange(0, len(jobs)).Draw(r, "end"))
		}
		slices.Sort(ends)
		var standing []map[string]stands
		var held [][]string
		for _, cut := range [][]int{nil, ends} {
			store := mem.New()
			g := gridOn(r, store)
			a := g.addSite("A")
			a.join("peer", 2)
			w := g.submitIn(jobs, cut)
			standing = append(standing, g.standing(w))
			g.check()
			a.sync()
			held = append(held, slices.Sorted(slices.Values(a.held())))
			g.check()
			if err := store.Close(); err != nil {
				r.Fatal(err)
			}
		}
		if !reflect.DeepEqual(standing[0], standing[1]) {
			r.Errorf("in one part %+v\nin parts %+v", standing[0], standing[1])
		}
		if !slices.Equal(held[0], held[1]) {
			r.Errorf("handed out after one part %v, after parts %v", held[0], held[1])
		}
	})
}

// A task of a later part that is named like one of an earlier part is refused,
// and the part may be corrected.
func TestNameOfAnEarlierPart(t *testing.T) {
	g := newGrid(t)
	g.addSite("A")
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Key: "k", More: true, Tasks: []task.Task{job("one", nil, nil)}})
	again := taskqueue.Submission{Name: "w", Key: "k", Part: 1, Tasks: []task.Task{job("two", nil, nil), job("one", nil, nil)}}
	if _, err := g.submit(again); !errors.Is(err, taskqueue.ErrInvalid) {
		t.Fatalf("a name that is taken: %v", err)
	}
	again.Tasks = again.Tasks[:1]
	g.mustSubmit(again)
	g.expect(task.Ready, task.NewID(w, "one"), task.NewID(w, "two"))
	g.check()
}
