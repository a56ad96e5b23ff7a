package taskqueue

import (
	"fmt"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Submit takes one part of a workflow. The last part seals it: the whole graph
// is checked, results of an earlier run of the same name are taken over, and
// what can run becomes READY. Until then nothing is handed out. A part that
// breaks a rule changes nothing. Sending a part again changes nothing;
// with other content it is refused until the workflow is complete.
//
// Errors: ErrInvalid (names the task, the file or the field), ErrConflict (the
// key belongs to another workflow, a part is out of order, the workflow is
// complete or cancelled), ErrLimit, ErrNotFound (Workflow is given and unknown).
func (r *Rules) Submit(t *Turn, s Submission) (_ Submitted, err error) {
	q := r.open(t)
	defer q.close(&err)
	p := q.submission(&s)
	existed := p.begin()
	if !existed {
		p.add()
		if !s.More {
			p.seal()
		}
	}
	w := p.workflow
	bansIn(p.Meta()).mayWork(w.Owner)
	return Submitted{Workflow: w.ID, Tasks: w.Total(), Reused: w.Reused, Again: p.again, AgainCPU: p.againCPU, Existed: existed}, nil
}

// begin finds the workflow that a part belongs to, a new one for a first part;
// existed tells that the part is there already.
func (p *submission) begin() (existed bool) {
	id := p.Workflow
	found := task.WorkflowID("")
	if p.Key != "" {
		found = read(p.Workflows().ByKey(p.By.key(p.Key)))
		if id != "" && found != "" && found != id {
			end(conflict("submission key %q belongs to workflow %s, not to %s", p.Key, found, id))
		}
		if found != "" {
			id = found
		}
	}
	if id == "" {
		p.newWorkflow()
		return false
	}
	p.workflow = p.workflows.need(id)
	switch w := p.workflow; {
	case w.Deleted:
		end(conflict("workflow %s, submitted with the key %q, is being deleted: choose another key, or try again when it is gone", w.ID, p.Key))
	case found == "" && !p.By.Changes(w):
		end(errNotYours(w))
	case p.Name != "" && w.Name != p.Name:
		end(conflict("submission key %q is in use for workflow %s %q: choose another key", p.Key, w.ID, w.Name))
	case p.Part < w.Parts:
		p.compare(w)
		return true
	case w.Cancelled:
		end(conflict("workflow %s was cancelled before it was complete", w.ID))
	case w.Sealed:
		end(conflict("workflow %s is complete: it takes no part %d", w.ID, p.Part))
	case p.Part > w.Parts:
		end(conflict("part %d of workflow %s came before part %d", p.Part, w.ID, w.Parts))
	}
	return false
}

// compare refuses a part that is sent again with other content while further parts are
// awaited: the workflow would be a mixture. One that is complete stays as it was.
func (p *submission) compare(w *Workflow) {
	if p.Part < len(w.Sent) && w.Sent[p.Part] != p.Sent {
		end(conflict("part %d of workflow %s, whose submission is not complete, was sent before with other content: choose another key", p.Part, w.ID))
	}
}

func (p *submission) newWorkflow() {
	if p.Part != 0 {
		end(conflict("part %d belongs to no known submission: begin with part 0", p.Part))
	}
	if !task.ValidName(p.Name) {
		end(invalid("workflow name %q: use letters, digits and ._+=:@- (at most 200), first a letter or digit", p.Name))
	}
	if p.Group != Everybody {
		check(p.By.shares(p.Group))
	}
	p.workflow = &Workflow{
		ID:      task.NewWorkflowID(randomBytes(p.Random, 8)),
		Name:    p.Name,
		Owner:   p.By.Name,
		Group:   p.Group,
		Key:     p.By.key(p.Key),
		Created: p.Wall,

		WorkflowRetention: WorkflowRetention{Keep: p.KeepIntermediates},
		Counts:            make(map[task.State]int),
	}
	p.workflows.put(p.workflow.ID, p.workflow)
	p.audit.add(AuditEntry{Kind: AuditSubmitted, Person: p.By.Name, Token: p.Token, Subject: string(p.workflow.ID), Note: p.Name})
	if !p.More {
		return
	}
	noteUnsealed(p.Meta(), p.workflow.ID, true)
}

// submission is one part of a workflow on its way into the queue.
type submission struct {
	*records
	life      *lifecycle
	catalogue *catalogue
	classes   *classes
	settle    func() // carries what was done to files over to tasks
	turnPage  func() // settles, saves and forgets a page of tasks

	*Submission // its Tasks and Files are the part's; the working copy's are tables
	workflow    *Workflow
	makers      map[task.LFN]task.ID // by this part's tasks
	again       int                  // tasks that were done, and are run again because files have gone
	againCPU    time.Duration        // that they took
}

// add checks the part and enters its files and tasks.
func (p *submission) add() {
	w := p.workflow
	if n := w.Total() + len(p.Tasks); n > p.config.Workflow.MaxTasks {
		end(fmt.Errorf("%w: workflow %s would have %d tasks, at most %d are allowed",
			ErrLimit, w.Name, n, p.config.Workflow.MaxTasks))
	}
	p.bindTasks()
	p.loadNames()
	p.declareFiles()
	p.declareOutputs()
	p.bindInputs()
	p.enter()
	known := setOf(w.Outputs)
	for _, name := range p.Outputs {
		qualified := p.qualify(name)
		if !known[qualified] {
			known[qualified] = true
			w.Outputs = append(w.Outputs, qualified)
		}
	}
	w.Parts++
	if p.More {
		w.Sent = append(w.Sent, p.Sent)
	}
	w.Last = p.Clock
	p.workflows.touch(w.ID)
}

func (p *submission) qualify(name string) task.LFN {
	if strings.HasPrefix(name, task.SharedPrefix) {
		return task.LFN(name)
	}
	return task.Qualify(p.workflow.ID, name)
}

// enter takes up the part's tasks, BLOCKED until the workflow is sealed.
func (p *submission) enter() {
	if len(p.Tasks) == 0 {
		return
	}
	first := read(p.Meta().Next("task", uint64(len(p.Tasks))))
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
			s.Class = p.classes.intern(Eligibility{Work: t.Class()})
		}
		p.use(t, s)
		p.tasks.put(t.ID, s)
		p.specs.put(t.ID, t)
		p.entered[i] = t.ID
	}
	if p.workflow.Counts == nil {
		p.workflow.Counts = make(map[task.State]int)
	}
	p.workflow.Counts[task.Blocked] += len(states)
}

// use notes what a new task reads, and counts what of it nobody has.
func (p *submission) use(t *task.Task, s *TaskState) {
	names := inputs(t)
	if len(names) == 0 {
		return
	}
	for _, name := range names {
		record := p.catalogue.entry(name)
		record.Uses++
		if before, altered := p.catalogue.existed[name]; altered && !before || !altered && !exists(record) {
			s.Missing++
		}
	}
	check(p.records.Files().AddUses(t.ID, names...))
}
