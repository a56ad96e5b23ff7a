package taskqueue

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// Going says whether the copies of a file go.
type Going uint8

// A file stays, or its copies go or have gone; then its entry stays, so that it can be
// made again, or goes with the last copy and the last reader.
const (
	Stays Going = iota
	CopiesGo
	EntryGoes
)

// Removal is what goes with a file or a workflow.
type Removal struct {
	Tasks  int
	Files  int
	Copies int        // on storage elements, that are deleted
	Bytes  task.Bytes // of these copies, as far as their sizes are known
	Named  int        // copies that stay because another file is the same copy
	Others int        // copies that stay because no task has stored them
}

// DeleteWorkflow has a workflow go that is over, with its tasks and with all copies of
// its files that tasks have stored and no other file names. It is gone for users at
// once; what is left of it is cleared away page by page. Copies of attempts that may
// still be told of are waited for. With dry nothing is done, and what would go is
// counted.
//
// Errors: ErrNotFound, ErrConflict (it is not over).
func (r *Rules) DeleteWorkflow(t *Turn, id task.WorkflowID, dry bool) (out Removal, err error) {
	q := r.open(t)
	defer q.close(&err)
	w := q.workflows.need(id)
	switch {
	case w.Deleted:
		end(NotFound("workflow", id))
	case w.open() > 0 || !w.Sealed && !w.Cancelled:
		end(conflict("workflow %s has %s that have not ended: cancel it first with `pilotage workflow cancel %s`", id, task.Counted(w.open(), "task"), id))
	}
	out.Tasks = w.Total()
	if dry {
		q.catalogue.countFiles(id, &out)
		return out, nil
	}
	q.audit.add(AuditEntry{Kind: AuditDeleted, Subject: string(id), Note: "workflow of " + w.Owner})
	q.clearing.add(w, clearance{Whole: true})
	return out, nil
}

// countFiles counts what goes with all files of a workflow.
func (c *catalogue) countFiles(id task.WorkflowID, out *Removal) {
	page := c.config.Workflow.SweepPage
	for after := task.LFN(""); ; {
		found := read(c.Files().List(string(id)+":", after, page))
		for _, f := range c.files.of(found) {
			c.count(f, out)
			after = f.LFN
		}
		if len(found) < page {
			return
		}
		c.files.clear()
	}
}

// count adds what goes with a file.
func (c *catalogue) count(f *FileRecord, out *Removal) {
	out.Files++
	for _, replica := range f.Replicas {
		switch {
		case !c.stored(replica):
			out.Others++
		case c.namer(f.LFN, replica.URL) != nil:
			out.Named++
		default:
			out.Copies++
			out.Bytes += max(0, f.Size)
		}
	}
}

// RemoveFile has the copies of a file go that tasks have stored and no other file
// names, and its entry if nobody reads it any more. Caches drop what they have of it.
// An output of a workflow that is over is none of its outputs any more. With dry
// nothing is done, and what would go is counted.
//
// Errors: ErrNotFound, ErrConflict (a task that has not ended reads it, or its
// workflow is not over, or it is nowhere but in caches).
func (r *Rules) RemoveFile(t *Turn, name task.LFN, dry bool) (out Removal, err error) {
	q := r.open(t)
	defer q.close(&err)
	f, how := q.files.one(name), EntryGoes
	if f == nil || f.Going == EntryGoes {
		end(NotFound("file", name))
	}
	w := q.workflows.one(name.Workflow())
	if w != nil {
		how = CopiesGo
		switch {
		case w.Deleted:
			end(NotFound("file", name))
		case !w.Over():
			end(conflict("workflow %s is not over: its file %s may be needed", w.ID, name.Local()))
		case f.Final && len(f.Replicas) == 0:
			end(conflict("the output %s is on no storage element: it goes with its workflow only (`pilotage workflow delete %s`)", name, w.ID))
		}
	}
	if f.Uses > 0 {
		readers := read(q.Files().Readers(name))
		q.tasks.load(readers...)
		for _, id := range readers {
			if s := q.tasks.held[id]; s != nil && !s.State.Terminal() {
				end(conflict("task %s reads %s and has not ended", id, name))
			}
		}
	}
	q.catalogue.count(f, &out)
	if dry {
		return out, nil
	}
	q.audit.add(AuditEntry{Kind: AuditDeleted, Subject: string(name)})
	if f.Final {
		f.Final = false
		w.Outputs = slices.DeleteFunc(slices.Clone(w.Outputs), func(other task.LFN) bool { return other == name })
		q.workflows.touch(w.ID)
	}
	q.catalogue.letGo(f, how)
	return out, nil
}
