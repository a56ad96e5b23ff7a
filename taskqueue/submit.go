package taskqueue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// Submit takes one part of a workflow. The last part seals it: the whole graph
// is checked, results of an earlier run of the same name are taken over, and
// what can run becomes READY. Until then nothing is handed out. A part that
// breaks a rule changes nothing. Sending a part again changes nothing.
//
// Errors: ErrInvalid (names the task, the file or the field), ErrConflict (the
// key belongs to another workflow, a part is out of order, the workflow is
// complete or cancelled), ErrLimit, ErrNotFound (Workflow is given and unknown).
func (r *Rules) Submit(t *Turn, s Submission) (Submitted, error) {
	var out Submitted
	err := r.apply(t, func(b *book) error {
		w, existed, err := b.submissionOf(&s)
		if err != nil {
			return err
		}
		if !existed {
			p := &part{book: b, Submission: &s, workflow: w}
			if err := p.add(); err != nil {
				return err
			}
			if !s.More {
				if err := p.seal(); err != nil {
					return err
				}
			}
		}
		out = Submitted{Workflow: w.ID, Tasks: w.Total(), Reused: w.Reused, Existed: existed}
		return nil
	})
	if err != nil {
		return Submitted{}, err
	}
	return out, nil
}

// submissionOf returns the workflow that a part belongs to, a new one for a
// first part; existed tells that the part is there already.
func (b *book) submissionOf(s *Submission) (w *Workflow, existed bool, err error) {
	id := s.Workflow
	if s.Key != "" {
		found, err := b.Workflows().ByKey(s.Key)
		if err != nil {
			return nil, false, fmt.Errorf("find submission %q: %w", s.Key, err)
		}
		if id != "" && found != "" && found != id {
			return nil, false, conflict("submission key %q belongs to workflow %s, not to %s", s.Key, found, id)
		}
		if found != "" {
			id = found
		}
	}
	if id == "" {
		w, err = b.newWorkflow(s)
		return w, false, err
	}
	if w, err = b.workflow(id); err != nil {
		return nil, false, err
	}
	switch {
	case w.Owner != s.Owner || s.Name != "" && w.Name != s.Name:
		return nil, false, conflict("submission key %q is in use for workflow %s %q: choose another key", s.Key, w.ID, w.Name)
	case s.Part < w.Parts:
		return w, true, nil
	case w.Cancelled:
		return nil, false, conflict("workflow %s was cancelled before it was complete", w.ID)
	case w.Sealed:
		return nil, false, conflict("workflow %s is complete: it takes no part %d", w.ID, s.Part)
	case s.Part > w.Parts:
		return nil, false, conflict("part %d of workflow %s came before part %d", s.Part, w.ID, w.Parts)
	}
	return w, false, nil
}

func (b *book) newWorkflow(s *Submission) (*Workflow, error) {
	if s.Part != 0 {
		return nil, conflict("part %d belongs to no known submission: begin with part 0", s.Part)
	}
	if !task.ValidName(s.Name) {
		return nil, invalid("workflow name %q: use letters, digits and ._+=:@- (at most 200), first a letter or digit", s.Name)
	}
	w := &Workflow{
		ID:      task.NewWorkflowID(b.randomBytes(8)),
		Name:    s.Name,
		Owner:   s.Owner,
		Key:     s.Key,
		Created: b.Wall,
		Counts:  make(map[task.State]int),
	}
	if s.More {
		if err := b.noteUnsealed(w.ID, true); err != nil {
			return nil, err
		}
	}
	b.workflows.put(w.ID, w)
	return w, nil
}

// part is one part of a submission on its way into the queue.
type part struct {
	*book
	*Submission // its Tasks and Files are the part's; the tables are the book's
	workflow    *Workflow
	makers      map[task.LFN]task.ID // by this part's tasks
}

// add checks the part and enters its files and tasks.
func (p *part) add() error {
	w := p.workflow
	if n := w.Total() + len(p.Tasks); n > p.config.Workflow.MaxTasks {
		return fmt.Errorf("%w: workflow %s would have %d tasks, at most %d are allowed",
			ErrLimit, w.Name, n, p.config.Workflow.MaxTasks)
	}
	for _, step := range []func() error{p.bindTasks, p.loadNames, p.declareFiles, p.declareOutputs, p.bindInputs, p.enter} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, name := range p.Outputs {
		qualified := p.qualify(name)
		if !slices.Contains(w.Outputs, qualified) {
			w.Outputs = append(w.Outputs, qualified)
		}
	}
	w.Parts++
	w.Last = p.Clock
	p.workflows.touch(w.ID)
	return nil
}

func (p *part) qualify(name string) task.LFN {
	if strings.HasPrefix(name, task.SharedPrefix) {
		return task.LFN(name)
	}
	return task.Qualify(p.workflow.ID, name)
}

// enter takes up the part's tasks, BLOCKED until the workflow is sealed.
func (p *part) enter() error {
	if len(p.Tasks) == 0 {
		return nil
	}
	first, err := p.Meta().Next("task", uint64(len(p.Tasks)))
	if err != nil {
		return fmt.Errorf("number tasks: %w", err)
	}
	states := make([]TaskState, len(p.Tasks))
	p.entered = make([]task.ID, len(p.Tasks))
	for i := range p.Tasks {
		t, s := &p.Tasks[i], &states[i]
		*s = TaskState{
			ID: t.ID, Seq: first + uint64(i), State: task.Blocked, Priority: t.Priority,
			Generation: 1, Number: 1, Changed: p.Wall,
		}
		if len(t.Inputs)+len(t.Outputs) == 0 {
			s.Bare = true
			if s.Class, err = p.intern(Eligibility{Work: t.Class()}); err != nil {
				return err
			}
		}
		if err := p.use(t, s); err != nil {
			return err
		}
		p.tasks.put(t.ID, s)
		p.specs.put(t.ID, t)
		p.entered[i] = t.ID
	}
	if p.workflow.Counts == nil {
		p.workflow.Counts = make(map[task.State]int)
	}
	p.workflow.Counts[task.Blocked] += len(states)
	return nil
}

// use notes what a new task reads, and counts what of it nobody has.
func (p *part) use(t *task.Task, s *TaskState) error {
	names := inputs(t)
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		record, err := p.entry(name)
		if err != nil {
			return err
		}
		record.Uses++
		if before, altered := p.existed[name]; altered && !before || !altered && !exists(record) {
			s.Missing++
		}
	}
	if err := p.book.Files().AddUses(t.ID, names...); err != nil {
		return fmt.Errorf("record the inputs of %s: %w", t.ID, err)
	}
	return nil
}
