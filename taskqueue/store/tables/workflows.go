package tables

import (
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type workflowTable struct{ *tx }

var workflowKind = kind[taskqueue.Workflow]{
	table: workflows, codec: record.New[taskqueue.Workflow](), counter: "workflow rows",
	key: func(w *taskqueue.Workflow) key { return text(w.ID) },
	indexes: []index[taskqueue.Workflow]{
		{workflowsByAge, func(n uint64, _ *taskqueue.Workflow) key { return number(n) }},
		{workflowsByName, func(n uint64, w *taskqueue.Workflow) key { return text(w.Name).number(n) }},
		{workflowsByKey, func(n uint64, w *taskqueue.Workflow) key {
			if w.Key == "" {
				return nil
			}
			return text(w.Key).number(n)
		}},
	},
}

func (t workflowTable) Load(ids ...task.WorkflowID) ([]taskqueue.Workflow, error) {
	return workflowKind.load(t.tx, keysOf(ids)...)
}

func (t workflowTable) Save(workflows ...taskqueue.Workflow) error {
	return workflowKind.save(t.tx, workflows...)
}

func (t workflowTable) Delete(ids ...task.WorkflowID) error {
	return workflowKind.remove(t.tx, keysOf(ids)...)
}

func (t workflowTable) ByKey(name string) (task.WorkflowID, error) {
	if name == "" {
		return "", t.usable()
	}
	span := under(text(name))
	span.Down = true
	found, err := workflowKind.by(t.tx, workflowsByKey, span, 1)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0].ID, nil
}

func (t workflowTable) List(name string, after task.WorkflowID, limit int) ([]taskqueue.Workflow, error) {
	table, prefix := workflowsByAge, key(nil)
	if name != "" {
		table, prefix = workflowsByName, text(name)
	}
	span := under(prefix)
	span.Down = true
	if after != "" {
		value, err := t.getOne(workflows, text(after))
		if err != nil {
			return nil, err
		}
		if value == nil {
			return nil, taskqueue.ErrWorkflowGone
		}
		var last stored[taskqueue.Workflow]
		if err := workflowKind.decode(t.tx, value, &last); err != nil {
			return nil, err
		}
		span.Before = prefix.number(last.number)
	}
	return workflowKind.by(t.tx, table, span, limit)
}
