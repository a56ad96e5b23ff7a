package taskqueue

import (
	"fmt"

	"github.com/pilotage-grid/pilotage/task"
)

// cancelPage is how many tasks of a workflow are in memory at a time.
const cancelPage = 5_000

// CancelWorkflow cancels every open task of a workflow and returns how many.
// Masters learn by Sync what to kill. Tasks that have ended stay as they are,
// and so does a workflow without an open task.
//
// Errors: ErrNotFound.
func (r *Rules) CancelWorkflow(t *Turn, id task.WorkflowID) (int, error) {
	n := 0
	err := r.apply(t, func(q *queue) error {
		w, err := q.workflow(id)
		if err != nil {
			return err
		}
		if w.Sealed && w.open() == 0 {
			return nil // its results may still be on their way
		}
		w.Cancelled = true
		q.workflows.touch(id)
		for after := uint64(0); ; {
			states, err := q.Tasks().InWorkflow(id, after, cancelPage, task.Blocked, task.Ready, task.Leased)
			if err != nil {
				return fmt.Errorf("load tasks of %s: %w", id, err)
			}
			if len(states) == 0 {
				return nil
			}
			after = states[len(states)-1].Seq
			q.tasks.hold(states)
			for i := range states {
				if err := q.life.cancel(q.tasks.held[states[i].ID], "its workflow was cancelled"); err != nil {
					return err
				}
				n++
			}
			if err := q.save(); err != nil {
				return err
			}
			q.forget()
		}
	})
	return n, err
}

// CancelTask cancels an open task and, with it, every open task that depends
// on it; it returns how many. Cancelling a cancelled task does nothing.
//
// Errors: ErrNotFound, ErrConflict (the task has ended otherwise).
func (r *Rules) CancelTask(t *Turn, id task.ID) (int, error) {
	n := 0
	err := r.apply(t, func(q *queue) error {
		s, err := q.tasks.one(id)
		switch {
		case err != nil:
			return err
		case s == nil:
			return notFound("task", id)
		case s.State == task.Cancelled:
			return nil
		case s.State.Terminal():
			return conflict("task %s is %s: only what has not ended can be cancelled", id, s.State)
		}
		w, err := q.workflow(id.Workflow())
		if err != nil {
			return err
		}
		before := w.Counts[task.Cancelled]
		if err := q.life.cancel(s, "cancelled by a user"); err != nil {
			return err
		}
		q.life.ended = append(q.life.ended, id)
		err = q.ready.settle()
		n = w.Counts[task.Cancelled] - before
		return err
	})
	return n, err
}

// cancel ends an open task by a user's wish; its site is told to kill it.
func (l *lifecycle) cancel(s *TaskState, reason string) error {
	if s.State == task.Leased {
		l.revoke(s.Site, s.Lease, s.ID, true)
	}
	return l.move(s, task.Cancel, reason)
}
