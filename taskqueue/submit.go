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
				if err := b.seal(w, &s); err != nil {
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

// bindTasks gives the tasks their full ids and checks each by itself.
func (p *part) bindTasks() error {
	p.Tasks = slices.Clone(p.Tasks)
	ids := make([]task.ID, len(p.Tasks))
	seen := make(map[task.ID]struct{}, len(p.Tasks))
	for i := range p.Tasks {
		t := &p.Tasks[i]
		name := strings.TrimPrefix(strings.TrimPrefix(string(t.ID), string(p.workflow.ID)), "/")
		t.ID = task.NewID(p.workflow.ID, name)
		ids[i] = t.ID
		if err := t.Validate(); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		if err := validNames(t); err != nil {
			return err
		}
		if _, again := seen[t.ID]; again {
			return invalid("two tasks are named %s", name)
		}
		seen[t.ID] = struct{}{}
	}
	if p.workflow.Parts == 0 {
		return nil
	}
	if err := p.loadTasks(ids...); err != nil {
		return err
	}
	for _, id := range ids {
		if p.tasks.held[id] != nil {
			return invalid("two tasks are named %s", id.Name())
		}
	}
	return nil
}

// validNames checks what only a fresh description shows: names as written.
func validNames(t *task.Task) error {
	for _, in := range t.Inputs {
		if err := task.ValidateLFN(string(in.LFN)); err != nil {
			return invalid("task %s: input: %w", t.ID.Name(), err)
		}
	}
	seen := make(map[task.LFN]struct{}, len(t.Outputs))
	for _, out := range t.Outputs {
		if err := task.ValidateLFN(string(out.LFN)); err != nil {
			return invalid("task %s: output: %w", t.ID.Name(), err)
		}
		if strings.HasPrefix(string(out.LFN), task.SharedPrefix) {
			return invalid("task %s: output %s: files for all workflows are registered, not made by tasks", t.ID.Name(), out.LFN)
		}
		if _, again := seen[out.LFN]; again {
			return invalid("task %s makes %s twice", t.ID.Name(), out.LFN)
		}
		seen[out.LFN] = struct{}{}
	}
	for _, in := range t.Inputs {
		if _, own := seen[in.LFN]; own {
			return invalid("task %s reads its own output %s", t.ID.Name(), in.LFN)
		}
	}
	return nil
}

// loadNames loads the catalogue's entries of every name in the part, both as
// the workflow's own and as registered for all.
func (p *part) loadNames() error {
	var names []task.LFN
	both := func(name string) {
		names = append(names, p.qualify(name), shared(name))
	}
	for i := range p.Files {
		both(string(p.Files[i].LFN))
	}
	for i := range p.Tasks {
		for _, in := range p.Tasks[i].Inputs {
			both(string(in.LFN))
		}
		for _, out := range p.Tasks[i].Outputs {
			both(string(out.LFN))
		}
	}
	return p.loadFiles(names...)
}

// shared is the name under which a file would be registered for all.
func shared(name string) task.LFN {
	return task.LFN(task.SharedPrefix + strings.TrimPrefix(name, task.SharedPrefix))
}

// declareFiles enters the part's external files.
func (p *part) declareFiles() error {
	for i := range p.Files {
		f := &p.Files[i]
		name := string(f.LFN)
		if strings.HasPrefix(name, task.SharedPrefix) {
			return invalid("file %s: names beginning with vo: are registered apart, with `pilotage file register`", name)
		}
		if err := p.checkFile(f); err != nil {
			return err
		}
		if len(f.Replicas) == 0 {
			if p.AllowMissing {
				continue // it may be registered for all later
			}
			return invalid("file %s is declared and is nowhere: upload it, give its place with `at:`, or submit with --allow-missing", name)
		}
		record, err := p.entry(p.qualify(name))
		if err != nil {
			return err
		}
		if record.ProducerTask != "" {
			return invalid("file %s is declared as existing, and task %s makes it", name, record.ProducerTask.Name())
		}
		if len(record.Replicas) > 0 {
			return invalid("file %s is declared twice", name)
		}
		if err := p.describeFile(record, f); err != nil {
			return err
		}
	}
	return nil
}

// entry returns the catalogue's entry of a name, a new empty one if need be.
func (b *book) entry(name task.LFN) (*FileRecord, error) {
	if err := b.loadFiles(name); err != nil {
		return nil, err
	}
	record := b.files.held[name]
	if record == nil {
		record = &FileRecord{File: task.File{LFN: name, Size: -1}}
		b.files.put(name, record)
	}
	b.files.touch(name)
	return record, nil
}

// checkFile checks the description of an external file.
func (b *book) checkFile(f *task.File) error {
	if err := task.ValidateLFN(string(f.LFN)); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if f.Size < -1 {
		return invalid("file %s: size %d", f.LFN, f.Size)
	}
	if f.Adler32 != "" && (len(f.Adler32) != 8 || strings.Trim(f.Adler32, "0123456789abcdefABCDEF") != "") {
		return invalid("file %s: adler32 %q: expected 8 hex digits", f.LFN, f.Adler32)
	}
	for _, replica := range f.Replicas {
		site, err := b.site(replica.Site)
		if err != nil {
			return invalid("file %s: %w", f.LFN, err)
		}
		if why := site.misplaced(replica); why != "" {
			return invalid("file %s: its copy %s is not of %s: %s", f.LFN, replica.URL, replica.Site, why)
		}
		if replica.URL == "" {
			return invalid("file %s: its copy at %s has no URL", f.LFN, replica.Site)
		}
	}
	return nil
}

// describeFile fills an entry from an external file's description.
func (b *book) describeFile(record *FileRecord, f *task.File) error {
	record.Size, record.Digest, record.Exec = f.Size, f.Digest, f.Exec
	record.Adler32 = strings.ToLower(f.Adler32)
	for _, replica := range f.Replicas {
		if err := b.replicate(record, replica); err != nil {
			return err
		}
	}
	return nil
}

// declareOutputs enters the files that the part's tasks will make.
func (p *part) declareOutputs() error {
	p.makers = make(map[task.LFN]task.ID)
	for i := range p.Tasks {
		t := &p.Tasks[i]
		t.Outputs = slices.Clone(t.Outputs)
		for k := range t.Outputs {
			local := string(t.Outputs[k].LFN)
			name := p.qualify(local)
			t.Outputs[k].LFN = name
			record, err := p.entry(name)
			if err != nil {
				return err
			}
			switch {
			case record.ProducerTask != "":
				return invalid("file %s has two producers: tasks %s and %s", local, record.ProducerTask.Name(), t.ID.Name())
			case len(record.Replicas) > 0:
				return invalid("file %s is declared as existing, and task %s makes it", local, t.ID.Name())
			}
			if err := p.notSharedBefore(local, t); err != nil {
				return err
			}
			record.ProducerTask = t.ID
			p.makers[name] = t.ID
		}
	}
	return nil
}

// notSharedBefore refuses an output whose name an earlier part read and got
// bound to the file of that name that is registered for all.
func (p *part) notSharedBefore(local string, t *task.Task) error {
	other := p.files.held[shared(local)]
	if p.workflow.Parts == 0 || other == nil || other.Uses == 0 {
		return nil
	}
	readers, err := p.book.Files().Readers(other.LFN)
	if err != nil {
		return fmt.Errorf("load the readers of %s: %w", other.LFN, err)
	}
	for _, reader := range readers {
		if reader.Workflow() == p.workflow.ID {
			return invalid("task %s makes %s, which task %s of an earlier part took for the registered %s: send makers before readers",
				t.ID.Name(), local, reader.Name(), other.LFN)
		}
	}
	return nil
}

// bindInputs finds the file behind every input: the workflow's own, else the
// one registered for all, else (it may come with a later part) its own.
func (p *part) bindInputs() error {
	for i := range p.Tasks {
		t := &p.Tasks[i]
		t.Inputs = slices.Clone(t.Inputs)
		for k := range t.Inputs {
			local := string(t.Inputs[k].LFN)
			name := p.qualify(local)
			own, other := p.files.held[name], p.files.held[shared(local)]
			if own == nil || own.ProducerTask == "" && len(own.Replicas) == 0 {
				if other != nil && len(other.Replicas) > 0 || p.AllowMissing && !p.More {
					name = shared(local)
				}
			}
			t.Inputs[k].LFN = name
		}
	}
	return nil
}

// enter stores the part's tasks, BLOCKED until the workflow is sealed.
func (p *part) enter() error {
	if len(p.Tasks) == 0 {
		return nil
	}
	first, err := p.Meta().Next("task", uint64(len(p.Tasks)))
	if err != nil {
		return fmt.Errorf("number tasks: %w", err)
	}
	states := make([]TaskState, len(p.Tasks))
	for i := range p.Tasks {
		t := &p.Tasks[i]
		states[i] = TaskState{
			ID: t.ID, Seq: first + uint64(i), State: task.Blocked, Priority: t.Priority,
			Generation: 1, Number: 1, Changed: p.Wall,
		}
		for _, name := range inputs(t) {
			record, err := p.entry(name)
			if err != nil {
				return err
			}
			record.Uses++
			if before, altered := p.existed[name]; altered && !before || !altered && !exists(record) {
				states[i].Missing++
			}
		}
	}
	if err := p.book.Tasks().Add(p.Tasks, states); err != nil {
		return fmt.Errorf("add tasks: %w", err)
	}
	for i := range p.Tasks {
		p.tasks.put(p.Tasks[i].ID, &states[i])
		p.specs.put(p.Tasks[i].ID, &p.Tasks[i])
		if names := inputs(&p.Tasks[i]); len(names) > 0 {
			if err := p.book.Files().AddUses(p.Tasks[i].ID, names...); err != nil {
				return fmt.Errorf("record the inputs of %s: %w", p.Tasks[i].ID, err)
			}
		}
	}
	if p.workflow.Counts == nil {
		p.workflow.Counts = make(map[task.State]int)
	}
	p.workflow.Counts[task.Blocked] += len(states)
	return nil
}
