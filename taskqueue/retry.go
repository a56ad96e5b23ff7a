package taskqueue

import (
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// RetryWorkflow reopens the tasks of a workflow that ended badly, each with a
// new generation, and those whose results were lost while it was cancelled; it
// returns how many. With failedOnly those stay cancelled that a user cancelled,
// with what depends on them.
//
// Errors: ErrNotFound, ErrConflict (the workflow is not complete, or has
// nothing to retry).
func (r *Rules) RetryWorkflow(t *Turn, id task.WorkflowID, failedOnly bool) (int, error) {
	n := 0
	err := r.apply(t, func(b *book) error {
		w, err := b.workflow(id)
		if err != nil {
			return err
		}
		if !w.Sealed {
			return conflict("workflow %s is not complete: submit its last part or cancel it", id)
		}
		lost, err := b.resume(w)
		if err != nil {
			return err
		}
		n = lost
		for after := uint64(0); ; {
			states, err := b.Tasks().InWorkflow(id, after, cancelPage, task.Failed, task.Cancelled, task.Quarantined)
			if err != nil {
				return fmt.Errorf("load tasks of %s: %w", id, err)
			}
			if len(states) == 0 {
				break
			}
			after = states[len(states)-1].Seq
			b.holdTasks(states)
			reopened, err := b.retryPage(states, failedOnly)
			if err != nil {
				return err
			}
			n += reopened
		}
		if n == 0 {
			return conflict("workflow %s has no task that ended badly: nothing to retry", id)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// resume takes a cancelled workflow up again, and returns how many of its tasks
// have to make results again that were lost meanwhile.
func (b *book) resume(w *Workflow) (int, error) {
	if !w.Cancelled {
		return 0, nil
	}
	w.Cancelled = false
	b.workflows.touch(w.ID)
	if err := b.loadFiles(w.Outputs...); err != nil {
		return 0, err
	}
	var makers []task.ID
	for _, name := range w.Outputs {
		if f := b.files.held[name]; !exists(f) {
			makers = append(makers, f.ProducerTask)
		}
	}
	slices.Sort(makers)
	makers = slices.Compact(makers)
	if err := b.loadTasks(makers...); err != nil {
		return 0, err
	}
	makers = slices.DeleteFunc(makers, func(id task.ID) bool { return b.tasks.held[id].State != task.Done })
	b.remaking = append(b.remaking, makers...)
	return len(makers), nil
}

// retryPage reopens a page of tasks that ended badly.
func (b *book) retryPage(states []TaskState, failedOnly bool) (int, error) {
	var roots []task.ID
	for i := range states {
		roots = append(roots, states[i].Upstream)
	}
	roots = slices.DeleteFunc(roots, func(id task.ID) bool { return id == "" })
	if err := b.loadTasks(roots...); err != nil {
		return 0, err
	}
	var ids []task.ID
	for i := range states {
		s := b.tasks.held[states[i].ID]
		if !s.State.EndedBadly() {
			continue
		}
		if failedOnly && s.State == task.Cancelled {
			// A root that failed may be reopened already.
			root := b.tasks.held[s.Upstream]
			if root == nil || root.State == task.Cancelled {
				continue
			}
		}
		ids = append(ids, s.ID)
	}
	return len(ids), b.retry(ids)
}

// RetryTask reopens a task that ended badly, those before it that ended badly
// and whose output it needs, and those after it that ended only because of
// them. A cancelled workflow goes on with it: what it has lost of its results is
// made again, too. It returns how many.
//
// Errors: ErrNotFound, ErrConflict (the task did not end badly).
func (r *Rules) RetryTask(t *Turn, id task.ID) (int, error) {
	n := 0
	err := r.apply(t, func(b *book) error {
		s, err := b.state(id)
		switch {
		case err != nil:
			return err
		case s == nil:
			return notFound("task", id)
		case !s.State.EndedBadly():
			return conflict("task %s is %s: only a task that ended badly can be retried", id, s.State)
		}
		w, err := b.workflow(id.Workflow())
		if err != nil {
			return err
		}
		if !w.Sealed {
			return conflict("workflow %s is not complete: submit its last part or cancel it", w.ID)
		}
		lost, err := b.resume(w)
		if err != nil {
			return err
		}
		above, err := b.retryAbove(id)
		if err != nil {
			return err
		}
		below, err := b.retryBelow(above)
		n = lost + len(above) + len(below)
		return err
	})
	return n, err
}

// retryAbove reopens a task and, in turn, the makers of its missing inputs
// that ended badly.
func (b *book) retryAbove(id task.ID) ([]task.ID, error) {
	var all []task.ID
	for level := []task.ID{id}; len(level) > 0; {
		if err := b.loadInputs(level); err != nil {
			return nil, err
		}
		var makers []task.ID
		for _, id := range level {
			for _, in := range b.specs.held[id].Inputs {
				f := b.files.held[in.LFN]
				if f == nil || exists(f) || f.ProducerTask == "" {
					continue
				}
				maker := b.tasks.held[f.ProducerTask]
				if maker != nil && maker.State.EndedBadly() && !slices.Contains(makers, maker.ID) && !slices.Contains(level, maker.ID) {
					makers = append(makers, maker.ID)
				}
			}
		}
		if err := b.retry(level); err != nil {
			return nil, err
		}
		all = append(all, level...)
		level = makers
	}
	return all, nil
}

// retryBelow reopens, level by level, tasks that were cancelled because of
// one that ended badly and now wait only for tasks that are open.
func (b *book) retryBelow(above []task.ID) ([]task.ID, error) {
	var all []task.ID
	for level := above; len(level) > 0; {
		if err := b.loadOutputs(level); err != nil {
			return nil, err
		}
		var readers []task.ID
		for _, id := range level {
			for _, out := range b.specs.held[id].Outputs {
				ids, err := b.Files().Readers(out.LFN)
				if err != nil {
					return nil, fmt.Errorf("load the readers of %s: %w", out.LFN, err)
				}
				readers = append(readers, ids...)
			}
		}
		slices.Sort(readers)
		readers = slices.Compact(readers)
		if err := b.loadTasks(readers...); err != nil {
			return nil, err
		}
		readers = slices.DeleteFunc(readers, func(id task.ID) bool {
			s := b.tasks.held[id]
			return s == nil || s.State != task.Cancelled || s.Upstream == ""
		})
		if err := b.loadInputs(readers); err != nil {
			return nil, err
		}
		level = slices.DeleteFunc(readers, b.hopeless)
		if err := b.retry(level); err != nil {
			return nil, err
		}
		all = append(all, level...)
	}
	return all, nil
}

// hopeless tells whether the maker of a missing input ended badly.
func (b *book) hopeless(id task.ID) bool {
	return slices.ContainsFunc(b.specs.held[id].Inputs, func(in task.Input) bool {
		f := b.files.held[in.LFN]
		if f == nil || exists(f) || f.ProducerTask == "" {
			return false
		}
		maker := b.tasks.held[f.ProducerTask]
		return maker != nil && maker.State.EndedBadly()
	})
}

// retry opens the next generation of tasks that ended badly.
func (b *book) retry(ids []task.ID) error {
	if err := b.loadTasks(ids...); err != nil {
		return err
	}
	if err := b.loadOutputs(ids); err != nil {
		return err
	}
	for _, id := range ids {
		s := b.tasks.held[id]
		if err := b.move(s, task.Retry, "reopened by a user"); err != nil {
			return err
		}
		b.renew(s)
		s.Remade = 0
		b.review(id)
	}
	return nil
}
