package manysites

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// part is how many tasks a client sends with one call.
const part = 1_000

// supply submits the next part of a workflow, and looks again soon when the
// queue has enough READY tasks for now.
func (q *queue) supply() {
	left := q.config.Tasks - q.supplied
	if left == 0 {
		return
	}
	enough := q.config.Ahead * float64(q.config.Sites*q.config.Pilots)
	if q.parts == 0 && float64(q.supplied-q.sums.Handed) > enough {
		q.timeline.After(time.Second, q.supply)
		return
	}
	number := q.supplied / q.config.Workflow
	end := min((number+1)*q.config.Workflow, q.config.Tasks)
	n := min(part, end-q.supplied)
	submission := taskqueue.Submission{
		Key: fmt.Sprintf("many-%d", number), Name: fmt.Sprintf("many-%d", number), Part: q.parts, More: q.supplied+n < end,
		Tasks: make([]task.Task, n),
	}
	for i := range submission.Tasks {
		submission.Tasks[i] = task.Task{
			ID: task.ID(fmt.Sprintf("/t%08d", q.supplied+i)), Shell: "simulated", Resources: node, Walltime: time.Hour, Retries: 3,
		}
	}
	q.sums.Submissions++
	q.line(func() time.Duration {
		began := q.sums.Cost
		err := q.update(func(t *taskqueue.Turn) error {
			submitted, err := q.rules.Submit(t, submission)
			if err == nil && !submission.More {
				q.open = append(q.open, submitted.Workflow)
			}
			return err
		})
		if err != nil {
			q.fail("submit: %w", err)
		}
		q.sums.SubmitCost += q.sums.Cost - began
		q.supplied += n
		q.parts++
		if !submission.More {
			q.parts = 0
		}
		takes := q.config.Service.Call + time.Duration(n)*q.config.Service.Submitted
		q.timeline.After(takes+2*q.config.QueueLatency, q.supply)
		return takes
	})
}

// clear forgets workflows that are over. The product keeps them; ten million
// ended tasks would not fit into this program's memory.
func (q *queue) clear() error {
	if q.timeline.Now()-q.started < 10*time.Second || len(q.open) == 0 {
		return nil
	}
	q.started = q.timeline.Now()
	return q.update(func(t *taskqueue.Turn) error {
		found, err := t.Workflows().Load(q.open...)
		if err != nil {
			return err
		}
		for i := range found {
			w := &found[i]
			for _, bad := range []task.State{task.Failed, task.Cancelled, task.Quarantined} {
				if w.Counts[bad] > 0 {
					return fmt.Errorf("%d tasks of %s are %s", w.Counts[bad], w.Name, bad)
				}
			}
			if w.Counts[task.Done] < w.Total() {
				continue
			}
			if err := t.Tasks().DeleteWorkflow(w.ID); err != nil {
				return err
			}
			if err := t.Workflows().Delete(w.ID); err != nil {
				return err
			}
			q.open = slices.DeleteFunc(q.open, func(id task.WorkflowID) bool { return id == w.ID })
		}
		return nil
	})
}
