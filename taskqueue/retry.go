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
	err := r.apply(t, func(q *queue) error {
		w, err := q.workflow(id)
		if err != nil {
			return err
		}
		if !w.Sealed {
			return conflict("workflow %s is not complete: submit its last part or cancel it", id)
		}
		lost, err := (&reopening{q.records, q.life}).resume(w)
		if err != nil {
			return err
		}
		n = lost
		for after := uint64(0); ; {
			states, err := q.Tasks().InWorkflow(id, after, cancelPage, task.Failed, task.Cancelled, task.Quarantined)
			if err != nil {
				return fmt.Errorf("load tasks of %s: %w", id, err)
			}
			if len(states) == 0 {
				break
			}
			after = states[len(states)-1].Seq
			q.tasks.hold(states)
			reopened, err := (&reopening{q.records, q.life}).retryPage(states, failedOnly)
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

// reopening opens tasks again that ended badly.
type reopening struct {
	*records
	life *lifecycle
}

// resume takes a cancelled workflow up again, and returns how many of its tasks
// have to make results again that were lost meanwhile.
func (r *reopening) resume(w *Workflow) (int, error) {
	if !w.Cancelled {
		return 0, nil
	}
	w.Cancelled = false
	r.workflows.touch(w.ID)
	if err := r.files.load(w.Outputs...); err != nil {
		return 0, err
	}
	var makers []task.ID
	for _, name := range w.Outputs {
		if f := r.files.held[name]; !exists(f) {
			makers = append(makers, f.ProducerTask)
		}
	}
	slices.Sort(makers)
	makers = slices.Compact(makers)
	if err := r.tasks.load(makers...); err != nil {
		return 0, err
	}
	makers = slices.DeleteFunc(makers, func(id task.ID) bool { return r.tasks.held[id].State != task.Done })
	r.life.remaking = append(r.life.remaking, makers...)
	return len(makers), nil
}

// retryPage reopens a page of tasks that ended badly.
func (r *reopening) retryPage(states []TaskState, failedOnly bool) (int, error) {
	var roots []task.ID
	for i := range states {
		roots = append(roots, states[i].Upstream)
	}
	roots = slices.DeleteFunc(roots, func(id task.ID) bool { return id == "" })
	if err := r.tasks.load(roots...); err != nil {
		return 0, err
	}
	var ids []task.ID
	for i := range states {
		s := r.tasks.held[states[i].ID]
		if !s.State.EndedBadly() {
			continue
		}
		if failedOnly && s.State == task.Cancelled {
			// A root that failed may be reopened already.
			root := r.tasks.held[s.Upstream]
			if root == nil || root.State == task.Cancelled {
				continue
			}
		}
		ids = append(ids, s.ID)
	}
	return len(ids), r.retry(ids)
}

// RetryTask reopens a task that ended badly, those before it that ended badly
// and whose output it needs, and those after it that ended only because of
// them. A cancelled workflow goes on with it: what it has lost of its results is
// made again, too. It returns how many.
//
// Errors: ErrNotFound, ErrConflict (the task did not end badly).
func (r *Rules) RetryTask(t *Turn, id task.ID) (int, error) {
	n := 0
	err := r.apply(t, func(q *queue) error {
		s, err := q.tasks.one(id)
		switch {
		case err != nil:
			return err
		case s == nil:
			return notFound("task", id)
		case !s.State.EndedBadly():
			return conflict("task %s is %s: only a task that ended badly can be retried", id, s.State)
		}
		w, err := q.workflow(id.Workflow())
		if err != nil {
			return err
		}
		if !w.Sealed {
			return conflict("workflow %s is not complete: submit its last part or cancel it", w.ID)
		}
		lost, err := (&reopening{q.records, q.life}).resume(w)
		if err != nil {
			return err
		}
		above, err := (&reopening{q.records, q.life}).retryAbove(id)
		if err != nil {
			return err
		}
		below, err := (&reopening{q.records, q.life}).retryBelow(above)
		n = lost + len(above) + len(below)
		return err
	})
	return n, err
}

// retryAbove reopens a task and, in turn, the makers of its missing inputs
// that ended badly.
func (r *reopening) retryAbove(id task.ID) ([]task.ID, error) {
	var all []task.ID
	for level := []task.ID{id}; len(level) > 0; {
		if err := r.loadInputs(level); err != nil {
			return nil, err
		}
		var makers []task.ID
		for _, id := range level {
			for _, in := range r.specs.held[id].Inputs {
				f := r.files.held[in.LFN]
				if f == nil || exists(f) || f.ProducerTask == "" {
					continue
				}
				maker := r.tasks.held[f.ProducerTask]
				if maker != nil && maker.State.EndedBadly() && !slices.Contains(makers, maker.ID) && !slices.Contains(level, maker.ID) {
					makers = append(makers, maker.ID)
				}
			}
		}
		if err := r.retry(level); err != nil {
			return nil, err
		}
		all = append(all, level...)
		level = makers
	}
	return all, nil
}

// retryBelow reopens, level by level, tasks that were cancelled because of
// one that ended badly and now wait only for tasks that are open.
func (r *reopening) retryBelow(above []task.ID) ([]task.ID, error) {
	var all []task.ID
	for level := above; len(level) > 0; {
		if err := r.loadOutputs(level); err != nil {
			return nil, err
		}
		var readers []task.ID
		for _, id := range level {
			for _, out := range r.specs.held[id].Outputs {
				ids, err := r.Files().Readers(out.LFN)
				if err != nil {
					return nil, fmt.Errorf("load the readers of %s: %w", out.LFN, err)
				}
				readers = append(readers, ids...)
			}
		}
		slices.Sort(readers)
		readers = slices.Compact(readers)
		if err := r.tasks.load(readers...); err != nil {
			return nil, err
		}
		readers = slices.DeleteFunc(readers, func(id task.ID) bool {
			s := r.tasks.held[id]
			return s == nil || s.State != task.Cancelled || s.Upstream == ""
		})
		if err := r.loadInputs(readers); err != nil {
			return nil, err
		}
		level = slices.DeleteFunc(readers, r.hopeless)
		if err := r.retry(level); err != nil {
			return nil, err
		}
		all = append(all, level...)
	}
	return all, nil
}

// hopeless tells whether the maker of a missing input ended badly.
func (r *reopening) hopeless(id task.ID) bool {
	return slices.ContainsFunc(r.specs.held[id].Inputs, func(in task.Input) bool {
		f := r.files.held[in.LFN]
		if f == nil || exists(f) || f.ProducerTask == "" {
			return false
		}
		maker := r.tasks.held[f.ProducerTask]
		return maker != nil && maker.State.EndedBadly()
	})
}

// retry opens the next generation of tasks that ended badly.
func (r *reopening) retry(ids []task.ID) error {
	if err := r.tasks.load(ids...); err != nil {
		return err
	}
	if err := r.loadOutputs(ids); err != nil {
		return err
	}
	for _, id := range ids {
		s := r.tasks.held[id]
		if err := r.life.move(s, task.Retry, "reopened by a user"); err != nil {
			return err
		}
		r.life.renew(s)
		s.Remade = 0
		r.life.review(id)
	}
	return nil
}
