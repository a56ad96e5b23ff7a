package taskqueue

import (
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
func (r *Rules) RetryWorkflow(t *Turn, id task.WorkflowID, failedOnly bool) (_ int, err error) {
	q := r.open(t)
	defer q.close(&err)
	w := q.standing(id)
	q.audit.add(AuditEntry{Kind: AuditRetried, Subject: string(id)})
	opening := &reopening{q.records, &q.life}
	n := opening.resume(w)
	for after := uint64(0); ; {
		states := read(q.Tasks().InWorkflow(id, after, cancelPage, task.Failed, task.Cancelled, task.Quarantined))
		if len(states) == 0 {
			break
		}
		after = states[len(states)-1].Seq
		q.tasks.hold(states)
		n += opening.retryPage(states, failedOnly)
	}
	if n == 0 {
		end(conflict("workflow %s has no task that ended badly: nothing to retry", id))
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
func (r *reopening) resume(w *Workflow) int {
	bansIn(r.Meta()).mayWork(w.Owner)
	if !w.Sealed {
		end(conflict("workflow %s is not complete: submit its last part or cancel it", w.ID))
	}
	if !w.Cancelled {
		return 0
	}
	w.Cancelled = false
	r.workflows.touch(w.ID)
	r.files.load(w.Outputs...)
	var makers []task.ID
	for _, name := range w.Outputs {
		if f := r.files.held[name]; !exists(f) {
			makers = append(makers, f.ProducerTask)
		}
	}
	slices.Sort(makers)
	makers = slices.Compact(makers)
	r.tasks.load(makers...)
	makers = slices.DeleteFunc(makers, func(id task.ID) bool { return r.tasks.held[id].State != task.Done })
	r.life.remaking = append(r.life.remaking, makers...)
	return len(makers)
}

// retryPage reopens a page of tasks that ended badly.
func (r *reopening) retryPage(states []TaskState, failedOnly bool) int {
	var roots []task.ID
	for i := range states {
		roots = append(roots, states[i].Upstream)
	}
	roots = slices.DeleteFunc(roots, func(id task.ID) bool { return id == "" })
	r.tasks.load(roots...)
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
	r.retry(ids)
	return len(ids)
}

// RetryTask reopens a task that ended badly, those before it that ended badly
// and whose output it needs, and those after it that ended only because of
// them. A cancelled workflow goes on with it: what it has lost of its results is
// made again, too. It returns how many.
//
// Errors: ErrNotFound, ErrConflict (the task did not end badly).
func (r *Rules) RetryTask(t *Turn, id task.ID) (_ int, err error) {
	q := r.open(t)
	defer q.close(&err)
	if s := q.tasks.need(id); !s.State.EndedBadly() {
		end(conflict("task %s is %s: only a task that ended badly can be retried", id, s.State))
	}
	q.audit.add(AuditEntry{Kind: AuditRetried, Subject: string(id)})
	opening := &reopening{q.records, &q.life}
	lost := opening.resume(q.standing(id.Workflow()))
	above := opening.retryAbove(id)
	return lost + len(above) + len(opening.retryBelow(above)), nil
}

// retryAbove reopens a task and, in turn, the makers of its missing inputs
// that ended badly.
func (r *reopening) retryAbove(id task.ID) []task.ID {
	var all []task.ID
	opened := map[task.ID]bool{id: true}
	for level := []task.ID{id}; len(level) > 0; {
		r.loadInputs(level)
		var makers []task.ID
		for _, id := range level {
			for _, in := range r.specs.held[id].Inputs {
				f := r.files.held[in.LFN]
				if f == nil || exists(f) || f.ProducerTask == "" {
					continue
				}
				maker := r.tasks.held[f.ProducerTask]
				if maker != nil && maker.State.EndedBadly() && !opened[maker.ID] {
					opened[maker.ID] = true
					makers = append(makers, maker.ID)
				}
			}
		}
		r.retry(level)
		all = append(all, level...)
		level = makers
	}
	return all
}

// retryBelow reopens, level by level, tasks that were cancelled because of
// one that ended badly and now wait only for tasks that are open.
func (r *reopening) retryBelow(above []task.ID) []task.ID {
	var all []task.ID
	for level := above; len(level) > 0; {
		r.loadOutputs(level)
		var readers []task.ID
		for _, id := range level {
			for _, out := range r.specs.held[id].Outputs {
				ids := read(r.Files().Readers(out.LFN))
				readers = append(readers, ids...)
			}
		}
		slices.Sort(readers)
		readers = slices.Compact(readers)
		r.tasks.load(readers...)
		readers = slices.DeleteFunc(readers, func(id task.ID) bool {
			s := r.tasks.held[id]
			return s == nil || s.State != task.Cancelled || s.Upstream == ""
		})
		r.loadInputs(readers)
		level = slices.DeleteFunc(readers, r.hopeless)
		r.retry(level)
		all = append(all, level...)
	}
	return all
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
func (r *reopening) retry(ids []task.ID) {
	r.tasks.load(ids...)
	r.loadOutputs(ids)
	for _, id := range ids {
		s := r.tasks.held[id]
		r.life.move(s, task.Retry, "reopened by a user")
		r.life.renew(s)
		s.Remade = 0
		r.life.review(id)
	}
}
