package mem

import (
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type workflowRow struct {
	taskqueue.Workflow
	order uint64
}

type workflows struct {
	rows   table[task.WorkflowID, *workflowRow]
	newest index[workflowRow] // last saved first comes first
	named  index[workflowRow] // the same by name
	keyed  index[workflowRow] // the same by idempotency key
}

func newWorkflows() workflows {
	return workflows{
		rows:   newTable[task.WorkflowID, *workflowRow](),
		newest: newIndex(func(a, b *workflowRow) bool { return a.order > b.order }, nil),
		named: newIndex(func(a, b *workflowRow) bool {
			if a.Name != b.Name {
				return a.Name < b.Name
			}
			return a.order > b.order
		}, nil),
		keyed: newIndex(func(a, b *workflowRow) bool {
			if a.Key != b.Key {
				return a.Key < b.Key
			}
			return a.order > b.order
		}, func(w *workflowRow) bool { return w.Key != "" }),
	}
}

func (w workflows) copy() workflows {
	return workflows{w.rows.copy(), w.newest.copy(), w.named.copy(), w.keyed.copy()}
}

func (w workflows) replace(before, after *workflowRow) {
	w.newest.replace(before, after)
	w.named.replace(before, after)
	w.keyed.replace(before, after)
}

type workflowTable struct{ *tx }

func (t workflowTable) Load(ids ...task.WorkflowID) ([]taskqueue.Workflow, error) {
	return gather(ids, func(id task.WorkflowID, workflow *taskqueue.Workflow) bool {
		row, ok := t.workflows.rows.get(id)
		if ok {
			workflowCopy.load(workflow, &row.Workflow)
		}
		return ok
	}), nil
}

func (t workflowTable) Save(saved ...taskqueue.Workflow) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, w := range saved {
		row := &workflowRow{Workflow: w}
		workflowCopy.detach(&row.Workflow)
		before, known := t.workflows.rows.get(w.ID)
		if known {
			row.order = before.order
		} else {
			row.order = t.next()
		}
		t.workflows.rows.set(w.ID, row)
		t.workflows.replace(before, row)
	}
	return nil
}

func (t workflowTable) Delete(ids ...task.WorkflowID) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, id := range ids {
		t.workflows.replace(t.workflows.rows.remove(id), nil)
	}
	return nil
}

func (t workflowTable) ByKey(key string) (id task.WorkflowID, err error) {
	if key == "" {
		return "", nil
	}
	t.workflows.keyed.from(&workflowRow{Workflow: taskqueue.Workflow{Key: key}, order: newestFirst}, func(row *workflowRow) bool {
		if row.Key == key {
			id = row.ID
		}
		return false
	})
	return id, nil
}

// newestFirst comes before every order where the newest comes first.
const newestFirst = ^uint64(0)

func (t workflowTable) List(name string, after task.WorkflowID, limit int) ([]taskqueue.Workflow, error) {
	pivot := &workflowRow{Workflow: taskqueue.Workflow{Name: name}, order: newestFirst}
	if after != "" {
		last, ok := t.workflows.rows.get(after)
		if !ok {
			return nil, taskqueue.ErrWorkflowGone
		}
		pivot.order = last.order - 1
	}
	from := t.workflows.newest
	if name != "" {
		from = t.workflows.named
	}
	var found []*taskqueue.Workflow
	from.from(pivot, func(row *workflowRow) bool {
		if len(found) >= limit || name != "" && row.Name != name {
			return false
		}
		found = append(found, &row.Workflow)
		return true
	})
	return workflowCopy.list(found), nil
}
