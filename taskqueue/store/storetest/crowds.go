package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// crowdSize is how many tasks of a workflow compareCrowds adds at once; an
// engine may keep such neighbours together.
const crowdSize = 40

// compareCrowds changes many tasks at a time, most of them alike and next to
// each other in age, and compares what the store and the model answer.
func compareCrowds(t *testing.T, open Open) {
	rapid.Check(t, func(r *rapid.T) {
		store, reference := open(t), newModel()
		defer store.Close()
		defer reference.Close()
		d := &draws{T: r}
		for _, flow := range []task.WorkflowID{flowA, flowB} {
			d.both(store, reference, d.crowd(flow))
		}
		for range rapid.IntRange(1, 10).Draw(r, "changes") {
			d.both(store, reference, d.changeCrowd())
		}
		if got, want := crowdDump(r, store), crowdDump(r, reference); got != want {
			r.Fatalf("got %s\nwant %s", got, want)
		}
		d.both(store, reference, func(tx taskqueue.Tx) (any, error) { return nil, deleteWorkflow(tx, flowA, 7) })
		if got, want := crowdDump(r, store), crowdDump(r, reference); got != want {
			r.Fatalf("without one workflow: got %s\nwant %s", got, want)
		}
	})
}

// both carries out a transaction of one step on two stores.
func (d *draws) both(store, reference taskqueue.Store, s step) {
	if got, want := run(store, []step{s}), run(reference, []step{s}); got != want {
		d.Fatalf("got %s\nwant %s", got, want)
	}
}

func crowdTask(flow task.WorkflowID, i int) task.ID { return task.NewID(flow, fmt.Sprintf("t%02d", i)) }

// crowd adds a workflow of tasks that are alike but here and there.
func (d *draws) crowd(flow task.WorkflowID) step {
	var states []taskqueue.TaskState
	like := d.state("")
	for i := range crowdSize {
		if d.number() == 0 {
			like = d.state("")
		}
		if d.number() == 0 {
			d.seq++ // a gap
		}
		d.seq++
		state := like
		state.ID, state.Seq = crowdTask(flow, i), d.seq
		states = append(states, state)
	}
	return nothing(func(tx taskqueue.Tx) error { return add(tx, states...) })
}

// changeCrowd gives a stretch of a workflow's tasks, or some of it, a new
// state; one may be named twice.
func (d *draws) changeCrowd() step {
	flow, like := one(d, "workflow", flowA, flowB), d.state("")
	from := rapid.IntRange(0, crowdSize-1).Draw(d.T, "from")
	to := min(crowdSize, from+1+rapid.IntRange(0, crowdSize).Draw(d.T, "length"))
	every := rapid.IntRange(1, 3).Draw(d.T, "every")
	var states []taskqueue.TaskState
	for i := from; i < to; i += every {
		state := like
		state.ID = crowdTask(flow, i)
		states = append(states, state)
	}
	if d.number() == 0 {
		states = append(states, d.state(states[0].ID))
	}
	if d.number() < 3 {
		slices.Reverse(states)
	}
	return func(tx taskqueue.Tx) (any, error) {
		if err := tx.Tasks().Save(states...); err != nil {
			return nil, err
		}
		return tx.Tasks().InWorkflow(flow, 0, 3*crowdSize) // what was just written
	}
}

// crowdDump reads the tasks of compareCrowds in every way.
func crowdDump(t fataler, store taskqueue.Store) string {
	d := &dumper{t: t}
	var ids []task.ID
	for i := range crowdSize {
		ids = append(ids, crowdTask(flowA, (i*29)%crowdSize), crowdTask(flowB, i))
	}
	view(t, store, func(tx taskqueue.Tx) {
		tasks := tx.Tasks()
		d.tasks(tasks)
		note[[]task.Task](d, "descriptions")(tasks.Describe(ids...))
		note[[]taskqueue.TaskState](d, "states")(tasks.Load(ids...))
		for _, flow := range []task.WorkflowID{flowA, flowB} {
			for _, after := range []uint64{0, 31, 32, 50} {
				note[[]taskqueue.TaskState](d, "in workflow", flow, after)(tasks.InWorkflow(flow, after, 20))
				note[[]taskqueue.TaskState](d, "ready in workflow", flow, after)(tasks.InWorkflow(flow, after, 5, task.Ready))
			}
		}
		for _, class := range someClasses {
			note[[]taskqueue.TaskState](d, "ready", class)(tasks.ReadyIn(class, 7, 30))
			note[int](d, "before", class)(tasks.ReadyBefore(class, 0, 40))
			note[int](d, "before", class)(tasks.ReadyBefore(class, -1, 70))
		}
	})
	return strings.TrimSpace(d.String())
}
