package taskqueue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// bindTasks gives the tasks their full ids and checks each by itself.
func (p *submission) bindTasks() {
	p.Tasks = slices.Clone(p.Tasks)
	seen := make(map[task.ID]struct{}, len(p.Tasks))
	for i := range p.Tasks {
		t := &p.Tasks[i]
		name := strings.TrimPrefix(strings.TrimPrefix(string(t.ID), string(p.workflow.ID)), "/")
		t.ID = task.NewID(p.workflow.ID, name)
		if err := t.Validate(); err != nil {
			end(fmt.Errorf("%w: %w", ErrInvalid, err))
		}
		check(validNames(t))
		if _, again := seen[t.ID]; again {
			end(invalid("two tasks are named %s", name))
		}
		seen[t.ID] = struct{}{} // of earlier parts the store knows
	}
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
func (p *submission) loadNames() {
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
	p.files.load(names...)
}

// shared is the name under which a file would be registered for all.
func shared(name string) task.LFN {
	return task.LFN(task.SharedPrefix + strings.TrimPrefix(name, task.SharedPrefix))
}

// declareFiles enters the part's external files.
func (p *submission) declareFiles() {
	for i := range p.Files {
		f := &p.Files[i]
		name := string(f.LFN)
		if strings.HasPrefix(name, task.SharedPrefix) {
			end(invalid("file %s: names beginning with vo: are registered apart, with `pilotage file register`", name))
		}
		p.catalogue.checkFile(f)
		if len(f.Replicas) == 0 {
			if p.AllowMissing {
				continue // it may be registered for all later
			}
			end(invalid("file %s is declared and is nowhere: upload it, give its place with `at:`, or submit with --allow-missing", name))
		}
		record := p.catalogue.entry(p.qualify(name))
		if record.ProducerTask != "" {
			end(invalid("file %s is declared as existing, and task %s makes it", name, record.ProducerTask.Name()))
		}
		if len(record.Replicas) > 0 {
			end(invalid("file %s is declared twice", name))
		}
		p.catalogue.describeFile(record, f)
	}
}

// entry returns the catalogue's entry of a name, a new empty one if need be.
func (c *catalogue) entry(name task.LFN) *FileRecord {
	record := c.files.one(name)
	if record == nil {
		record = &FileRecord{File: task.File{LFN: name, Size: -1}}
		c.files.put(name, record)
	}
	c.files.touch(name)
	return record
}

// maxCopies bounds the copies of a file: pilots refuse messages with more than 1,000.
const maxCopies = 500

// checkFile checks the description of an external file.
func (c *catalogue) checkFile(f *task.File) {
	if err := task.ValidateLFN(string(f.LFN)); err != nil {
		end(fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	if f.Size < -1 {
		end(invalid("file %s: size %d", f.LFN, f.Size))
	}
	if f.Adler32 != "" && (len(f.Adler32) != 8 || strings.Trim(f.Adler32, "0123456789abcdefABCDEF") != "") {
		end(invalid("file %s: adler32 %q: expected 8 hex digits", f.LFN, f.Adler32))
	}
	if len(f.Replicas) > maxCopies {
		end(invalid("file %s has %d copies: at most %d are kept", f.LFN, len(f.Replicas), maxCopies))
	}
	for _, replica := range f.Replicas {
		site := c.sites.one(replica.Site)
		if site == nil {
			end(invalid("file %s: there is no site %s: `pilotage site list` names the sites", f.LFN, replica.Site))
		}
		if why := site.misplaced(replica); why != "" {
			end(invalid("file %s: its copy %s is not of %s: %s", f.LFN, replica.URL, replica.Site, why))
		}
		if replica.URL == "" {
			end(invalid("file %s: its copy at %s has no URL", f.LFN, replica.Site))
		}
	}
}

// describeFile fills an entry from an external file's description.
func (c *catalogue) describeFile(record *FileRecord, f *task.File) {
	record.Size, record.Digest, record.Exec = f.Size, f.Digest, f.Exec
	record.Adler32 = strings.ToLower(f.Adler32)
	for _, replica := range f.Replicas {
		c.replicate(record, replica)
	}
}

// declareOutputs enters the files that the part's tasks will make.
func (p *submission) declareOutputs() {
	p.makers = make(map[task.LFN]task.ID)
	for i := range p.Tasks {
		t := &p.Tasks[i]
		t.Outputs = slices.Clone(t.Outputs)
		for k := range t.Outputs {
			local := string(t.Outputs[k].LFN)
			name := p.qualify(local)
			t.Outputs[k].LFN = name
			record := p.catalogue.entry(name)
			switch {
			case record.ProducerTask != "":
				end(invalid("file %s has two producers: tasks %s and %s", local, record.ProducerTask.Name(), t.ID.Name()))
			case len(record.Replicas) > 0:
				end(invalid("file %s is declared as existing, and task %s makes it", local, t.ID.Name()))
			}
			p.notSharedBefore(local, t)
			record.ProducerTask = t.ID
			p.makers[name] = t.ID
		}
	}
}

// notSharedBefore refuses an output whose name an earlier part read and got
// bound to the file of that name that is registered for all.
func (p *submission) notSharedBefore(local string, t *task.Task) {
	other := p.files.held[shared(local)]
	if p.workflow.Parts == 0 || other == nil || other.Uses == 0 {
		return
	}
	readers := read(p.records.Files().Readers(other.LFN))
	for _, reader := range readers {
		if reader.Workflow() == p.workflow.ID {
			end(invalid("task %s makes %s, which task %s of an earlier part took for the registered %s: send makers before readers",
				t.ID.Name(), local, reader.Name(), other.LFN))
		}
	}
}

// bindInputs finds the file behind every input: the workflow's own, else the
// one registered for all, else (it may come with a later part) its own.
func (p *submission) bindInputs() {
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
}
