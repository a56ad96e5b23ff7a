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
	err := r.apply(t, func(q *queue) error {
		p := q.submission(&s)
		existed, err := p.begin()
		if err != nil {
			return err
		}
		if !existed {
			if err := p.add(); err != nil {
				return err
			}
			if !s.More {
				if err := p.seal(); err != nil {
					return err
				}
			}
		}
		w := p.workflow
		out = Submitted{Workflow: w.ID, Tasks: w.Total(), Reused: w.Reused, Existed: existed}
		return nil
	})
	if err != nil {
		return Submitted{}, err
	}
	return out, nil
}

// begin finds the workflow that a part belongs to, a new one for a first part;
// existed tells that the part is there already.
func (p *submission) begin() (existed bool, err error) {
	id := p.Workflow
	if p.Key != "" {
		found, err := p.Workflows().ByKey(p.Key)
		if err != nil {
			return false, fmt.Errorf("find submission %q: %w", p.Key, err)
		}
		if id != "" && found != "" && found != id {
			return false, conflict("submission key %q belongs to workflow %s, not to %s", p.Key, found, id)
		}
		if found != "" {
			id = found
		}
	}
	if id == "" {
		return false, p.newWorkflow()
	}
	if p.workflow, err = p.records.workflow(id); err != nil {
		return false, err
	}
	switch w := p.workflow; {
	case w.Owner != p.Owner || p.Name != "" && w.Name != p.Name:
		return false, conflict("submission key %q is in use for workflow %s %q: choose another key", p.Key, w.ID, w.Name)
	case p.Part < w.Parts:
		return true, nil
	case w.Cancelled:
		return false, conflict("workflow %s was cancelled before it was complete", w.ID)
	case w.Sealed:
		return false, conflict("workflow %s is complete: it takes no part %d", w.ID, p.Part)
	case p.Part > w.Parts:
		return false, conflict("part %d of workflow %s came before part %d", p.Part, w.ID, w.Parts)
	}
	return false, nil
}

func (p *submission) newWorkflow() error {
	if p.Part != 0 {
		return conflict("part %d belongs to no known submission: begin with part 0", p.Part)
	}
	if !task.ValidName(p.Name) {
		return invalid("workflow name %q: use letters, digits and ._+=:@- (at most 200), first a letter or digit", p.Name)
	}
	p.workflow = &Workflow{
		ID:      task.NewWorkflowID(p.randomBytes(8)),
		Name:    p.Name,
		Owner:   p.Owner,
		Key:     p.Key,
		Created: p.Wall,
		Counts:  make(map[task.State]int),
	}
	p.workflows.put(p.workflow.ID, p.workflow)
	if !p.More {
		return nil
	}
	return p.noteUnsealed(p.workflow.ID, true)
}

// submission is one part of a workflow on its way into the queue.
type submission struct {
	*records
	life      *lifecycle
	catalogue *catalogue
	classes   *classes
	settle    func() error // carries what was done to files over to tasks
	turnPage  func() error // settles, saves and forgets a page of tasks

	*Submission // its Tasks and Files are the part's; the working copy's are tables
	workflow    *Workflow
	makers      map[task.LFN]task.ID // by this part's tasks
}

// add checks the part and enters its files and tasks.
func (p *submission) add() error {
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

func (p *submission) qualify(name string) task.LFN {
	if strings.HasPrefix(name, task.SharedPrefix) {
		return task.LFN(name)
	}
	return task.Qualify(p.workflow.ID, name)
}

// enter takes up the part's tasks, BLOCKED until the workflow is sealed.
func (p *submission) enter() error {
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
			if s.Class, err = p.classes.intern(Eligibility{Work: t.Class()}); err != nil {
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
func (p *submission) use(t *task.Task, s *TaskState) error {
	names := inputs(t)
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		record, err := p.catalogue.entry(name)
		if err != nil {
			return err
		}
		record.Uses++
		if before, altered := p.catalogue.existed[name]; altered && !before || !altered && !exists(record) {
			s.Missing++
		}
	}
	if err := p.records.Files().AddUses(t.ID, names...); err != nil {
		return fmt.Errorf("record the inputs of %s: %w", t.ID, err)
	}
	return nil
}
