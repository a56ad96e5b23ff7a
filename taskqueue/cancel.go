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
	err := r.apply(t, func(b *book) error {
		w, err := b.workflow(id)
		if err != nil {
			return err
		}
		if w.Sealed && w.open() == 0 {
			return nil // its results may still be on their way
		}
		w.Cancelled = true
		b.workflows.touch(id)
		for after := uint64(0); ; {
			states, err := b.Tasks().InWorkflow(id, after, cancelPage, task.Blocked, task.Ready, task.Leased)
			if err != nil {
				return fmt.Errorf("load tasks of %s: %w", id, err)
			}
			if len(states) == 0 {
				return nil
			}
			after = states[len(states)-1].Seq
			b.holdTasks(states)
			for i := range states {
				if err := b.cancel(b.tasks.held[states[i].ID], "its workflow was cancelled"); err != nil {
					return err
				}
				n++
			}
			if err := b.save(); err != nil {
				return err
			}
			b.forget()
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
	err := r.apply(t, func(b *book) error {
		s, err := b.state(id)
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
		w, err := b.workflow(id.Workflow())
		if err != nil {
			return err
		}
		before := w.Counts[task.Cancelled]
		if err := b.cancel(s, "cancelled by a user"); err != nil {
			return err
		}
		b.ended = append(b.ended, id)
		err = b.settle()
		n = w.Counts[task.Cancelled] - before
		return err
	})
	return n, err
}

// cancel ends an open task by a user's wish; its site is told to kill it.
func (b *book) cancel(s *TaskState, reason string) error {
	if s.State == task.Leased {
		b.revoke(s.Site, s.Lease, s.ID, true)
	}
	return b.move(s, task.Cancel, reason)
}
