package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// workflow returns a workflow by its id or name, or by OWNER/NAME. Of a name it is the
// newest of the caller's own, else of those that the caller may look into. How a
// workflow does as a whole all may know.
func (c caller) workflow(t *taskqueue.Turn, name string) (taskqueue.Workflow, error) {
	var found *taskqueue.Workflow
	if id, malformed := task.ParseWorkflowID(name); malformed == nil {
		found = loadWorkflow(t, id)
	}
	if found == nil {
		if slash := strings.LastIndexByte(name, '/'); slash >= 0 {
			found = first(listWorkflows(t, name[:slash], name[slash+1:], "", 1))
		} else if task.ValidName(name) {
			found = taskqueue.Read(c.person.NewestNamed(t, name))
		}
	}
	switch {
	case name == "":
		return taskqueue.Workflow{}, invalid("no workflow named: give an id or a name")
	case found == nil || found.Deleted:
		return taskqueue.Workflow{}, taskqueue.NotFound("workflow", strconv.Quote(name))
	}
	return *found, nil
}

// loadWorkflow returns a workflow by its id; nil if there is none.
func loadWorkflow(t *taskqueue.Turn, id task.WorkflowID) *taskqueue.Workflow {
	return first(taskqueue.Read(t.Workflows().Load(id)))
}

// first is the first of what was found, nil if there is none.
func first[R any](found []R) *R {
	if len(found) == 0 {
		return nil
	}
	return &found[0]
}

// sees returns a workflow that the caller may look into.
func (c caller) sees(t *taskqueue.Turn, name string) (taskqueue.Workflow, error) {
	w, err := c.workflow(t, name)
	if err == nil {
		err = c.person.MaySee(&w)
	}
	return w, err
}

// changes returns a workflow that the caller may cancel and retry.
func (c caller) changes(t *taskqueue.Turn, name string) (taskqueue.Workflow, error) {
	w, err := c.workflow(t, name)
	if err == nil {
		err = c.person.MayChange(&w)
	}
	return w, err
}

// looksAfter tells whether the caller learns from a site what belongs to the owners of
// tasks: how they failed, and what they require. Owners learn that from their tasks.
func (c caller) looksAfter(site task.Site) bool {
	return c.person.Admin || c.person.Looks || c.kind&(operator|factory) != 0 && c.site == site
}

// forOperators stands where a reason is not told.
const forOperators = "operators of the site are told why"

// seesTask refuses a caller that may not look into a task's workflow.
func (c caller) seesTask(t *taskqueue.Turn, id task.ID) error {
	_, err := c.sees(t, string(id.Workflow()))
	return notFoundAs(err, "task", id)
}

// file returns the first of some files that is there and that the caller may look at.
func (c caller) file(t *taskqueue.Turn, names ...task.LFN) (*taskqueue.FileRecord, error) {
	found := taskqueue.Read(t.Files().Load(names...))
	if len(found) == 0 {
		return nil, taskqueue.NotFound("file", strconv.Quote(string(names[0])))
	}
	return &found[0], c.seesFile(t, found[0].LFN)
}

// task returns the state of a task that the caller may look at.
func (c caller) task(t *taskqueue.Turn, id task.ID) (*taskqueue.TaskState, error) {
	taskqueue.Check(c.seesTask(t, id))
	states := taskqueue.Read(t.Tasks().Load(id))
	if len(states) == 0 {
		return nil, taskqueue.NotFound("task", id)
	}
	return &states[0], nil
}

// seesFile refuses a caller that may not look into a file's workflow. What is
// registered for all is open to all.
func (c caller) seesFile(t *taskqueue.Turn, name task.LFN) error {
	w, err := c.ofFile(t, name)
	if err == nil && w != nil {
		err = c.person.MaySee(w)
	}
	return err
}

// removesFile refuses a caller that may not remove a file.
func (c caller) removesFile(t *taskqueue.Turn, name task.LFN) error {
	w, err := c.ofFile(t, name)
	switch {
	case err != nil:
		return err
	case w != nil:
		return c.person.MayChange(w)
	case !strings.HasPrefix(string(name), task.SharedPrefix):
		return invalid("%s is no file: give ID:NAME with the id of a workflow, as `pilotage file list` prints it, or vo:NAME", name)
	}
	found := taskqueue.Read(t.Files().Load(name))
	if len(found) == 0 {
		return nil // the rules say so
	}
	return c.person.MayChangeFile(&found[0])
}

// ofFile returns the workflow of a file, or as much as is known of one that has gone and
// left the file; nil if the file is registered for all.
func (c caller) ofFile(t *taskqueue.Turn, name task.LFN) (*taskqueue.Workflow, error) {
	id := name.Workflow()
	if id == "" {
		return nil, nil
	}
	w, err := c.workflow(t, string(id))
	if errors.Is(err, taskqueue.ErrNotFound) {
		if left := first(taskqueue.Read(t.Files().Load(name))); left != nil && left.Owner != "" {
			return &taskqueue.Workflow{ID: id, Owner: left.Owner, Group: left.Group}, nil
		}
	}
	return &w, notFoundAs(err, "file", name)
}

// namesCopies refuses a caller that describes files by copies of workflows into which it
// may not look. Pilots, who may read all that is on their storage element, would read
// them for the caller.
func (c caller) namesCopies(t *taskqueue.Turn, files []task.File) error {
	open := make(map[task.WorkflowID]bool)
	for i := range files {
		for _, replica := range files[i].Replicas {
			named := workflowsIn(replica.URL)
			if len(named) > maxNamed {
				return invalid("file %s: its copy names %d workflows: a place is of one", files[i].LFN, len(named))
			}
			for _, id := range named {
				if open[id] {
					continue
				}
				w, err := loadWorkflow(t, id), error(nil)
				if w == nil {
					w, err = c.ofFile(t, task.StoredFile(task.CopyName(replica.URL)))
				}
				if err == nil && w != nil && w.Owner != "" {
					err = c.person.MaySee(w)
				}
				if err != nil && !errors.Is(err, taskqueue.ErrNotFound) {
					return fmt.Errorf("file %s: its copy %s: %w", files[i].LFN, replica.URL, err)
				}
				open[id] = w != nil && w.ID == id && w.Owner != ""
			}
		}
	}
	return nil
}

// maxNamed bounds what is looked up for a URL, be it written however oddly.
const maxNamed = 4

// workflowsIn are the ids of workflows anywhere in a URL, however it is written: a
// storage element may find a copy by another path than the one that the queue knows.
func workflowsIn(copied string) (ids []task.WorkflowID) {
	if plain, err := url.PathUnescape(copied); err == nil {
		copied = plain
	}
	for _, word := range strings.FieldsFunc(copied, func(r rune) bool { return strings.ContainsRune("/?&=;:", r) }) {
		if id, err := task.ParseWorkflowID(word); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// notFoundAs names what was asked for where its workflow is not there.
func notFoundAs(err error, kind string, name any) error {
	if errors.Is(err, taskqueue.ErrNotFound) {
		return taskqueue.NotFound(kind, name)
	}
	return err
}

// giveToAdmin takes over a database from before workflows had owners.
func (s *Server) giveToAdmin(ctx context.Context) error {
	for last := task.WorkflowID(""); ; {
		var err error
		last, err = changed(ctx, s.turns, func(t *taskqueue.Turn) (task.WorkflowID, error) {
			return s.turns.rules.GiveToAdmin(t, last)
		})
		if err != nil || last == "" {
			return err
		}
	}
}
