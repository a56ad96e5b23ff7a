package tables

import (
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type workflowTable struct {
	records[task.WorkflowID, taskqueue.Workflow]
}

var workflowKind = kind[task.WorkflowID, taskqueue.Workflow]{
	table: workflows, codec: record.New[taskqueue.Workflow](), counter: "workflow rows", often: true,
	id: func(w *taskqueue.Workflow) task.WorkflowID { return w.ID }, key: text[task.WorkflowID],
	indexes: []index[taskqueue.Workflow]{
		{workflowsByAge, func(n uint64, _ *taskqueue.Workflow) []key { return []key{number(n)} }},
		{workflowsByName, func(n uint64, w *taskqueue.Workflow) []key { return []key{text(w.Name).number(n)} }},
		{workflowsByKey, func(n uint64, w *taskqueue.Workflow) []key {
			if w.Key == "" {
				return nil
			}
			return []key{text(w.Key).number(n)}
		}},
		{workflowsByOwner, func(n uint64, w *taskqueue.Workflow) []key { return []key{text(w.Owner).number(n)} }},
		{workflowsByOwnerAndName, func(n uint64, w *taskqueue.Workflow) []key {
			return []key{text(w.Owner).text(w.Name).number(n)}
		}},
		{workflowsToLookAt, func(n uint64, w *taskqueue.Workflow) []key {
			if w.SecondLook == 0 {
				return nil
			}
			return []key{number(uint64(w.SecondLook)).number(n)}
		}},
	},
}

func (t workflowTable) ByKey(name string) (task.WorkflowID, error) {
	if name == "" {
		return "", t.usable()
	}
	span := under(text(name))
	span.Down = true
	found, err := t.by(workflowsByKey, span, 1)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0].ID, nil
}

func (t workflowTable) ToLookAt(by taskqueue.Instant, limit int) ([]taskqueue.Workflow, error) {
	return t.by(workflowsToLookAt, Span{Before: number(uint64(by) + 1)}, limit)
}

func (t workflowTable) List(owner, name string, after task.WorkflowID, limit int) ([]taskqueue.Workflow, error) {
	table, prefix := workflowsByAge, key(nil)
	switch {
	case owner != "" && name != "":
		table, prefix = workflowsByOwnerAndName, text(owner).text(name)
	case owner != "":
		table, prefix = workflowsByOwner, text(owner)
	case name != "":
		table, prefix = workflowsByName, text(name)
	}
	span := under(prefix)
	span.Down = true
	if after != "" {
		last, there, err := t.find(text(after))
		if err != nil {
			return nil, err
		}
		if !there {
			return nil, taskqueue.ErrWorkflowGone
		}
		span.Before = prefix.number(last.number)
	}
	return t.by(table, span, limit)
}
