package taskqueue

import "github.com/pilotage-grid/pilotage/task"

// cancelPage is how many tasks of a workflow are in memory at a time.
const cancelPage = 5_000

// CancelWorkflow cancels every open task of a workflow and returns how many.
// Masters learn by Sync what to kill. Tasks that have ended stay as they are,
// and so does a workflow without an open task.
//
// Errors: ErrNotFound.
func (r *Rules) CancelWorkflow(t *Turn, id task.WorkflowID) (n int, err error) {
	q := r.open(t)
	defer q.close(&err)
	return q.cancelAll(id), nil
}

// cancelAll cancels every open task of a workflow. It forgets the working copy.
func (q *queue) cancelAll(id task.WorkflowID) (n int) {
	w := q.standing(id)
	if w.Sealed && w.open() == 0 {
		return 0 // its results may still be on their way
	}
	w.Cancelled = true
	q.workflows.touch(id)
	q.audit.add(AuditEntry{Kind: AuditCancelled, Subject: string(id)})
	for after := uint64(0); ; {
		states := read(q.Tasks().InWorkflow(id, after, cancelPage, task.Blocked, task.Ready, task.Leased))
		if len(states) == 0 {
			return n
		}
		after = states[len(states)-1].Seq
		q.tasks.hold(states)
		for i := range states {
			q.life.cancel(q.tasks.held[states[i].ID], "its workflow was cancelled")
			n++
		}
		q.save()
		q.forget()
	}
}

// CancelTask cancels an open task and, with it, every open task that depends
// on it; it returns how many. Cancelling a cancelled task does nothing.
//
// Errors: ErrNotFound, ErrConflict (the task has ended otherwise).
func (r *Rules) CancelTask(t *Turn, id task.ID) (_ int, err error) {
	q := r.open(t)
	defer q.close(&err)
	s := q.tasks.need(id)
	if s.State == task.Cancelled {
		return 0, nil
	}
	if s.State.Terminal() {
		end(conflict("task %s is %s: only what has not ended can be cancelled", id, s.State))
	}
	w := q.workflows.need(id.Workflow())
	before := w.Counts[task.Cancelled]
	q.audit.add(AuditEntry{Kind: AuditCancelled, Subject: string(id)})
	q.life.cancel(s, "cancelled by a user")
	q.life.ended = append(q.life.ended, id)
	q.ready.settle()
	return w.Counts[task.Cancelled] - before, nil
}

// cancel ends an open task by a user's wish; its site is told to kill it.
func (l *lifecycle) cancel(s *TaskState, reason string) {
	if s.State == task.Leased {
		l.revoke(s.Site, s.Lease, s.ID, true)
	}
	l.move(s, task.Cancel, reason)
}
