package sqlite

import (
	"math"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type workflowTable struct{ *tx }

func (t workflowTable) Load(ids ...task.WorkflowID) ([]taskqueue.Workflow, error) {
	return load(t.tx, workflowCodec, "SELECT record FROM workflows WHERE id = ?", ids)
}

func (t workflowTable) Save(workflows ...taskqueue.Workflow) error {
	for _, w := range workflows {
		err := t.write(`INSERT INTO workflows (id, name, key, record) VALUES (?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET name = excluded.name, key = excluded.key, record = excluded.record`,
			string(w.ID), w.Name, w.Key, workflowCodec.Encode(&w))
		if err != nil {
			return err
		}
	}
	return t.writing()
}

func (t workflowTable) Delete(ids ...task.WorkflowID) error {
	for _, id := range ids {
		if err := t.write("DELETE FROM workflows WHERE id = ?", string(id)); err != nil {
			return err
		}
	}
	return t.writing()
}

func (t workflowTable) ByKey(key string) (task.WorkflowID, error) {
	id, err := t.text("SELECT id FROM workflows WHERE key = ? AND key <> '' ORDER BY number DESC LIMIT 1", key)
	return task.WorkflowID(id), err
}

func (t workflowTable) List(name string, after task.WorkflowID, limit int) ([]taskqueue.Workflow, error) {
	before := int64(math.MaxInt64)
	if after != "" {
		var err error
		if before, err = t.integer("SELECT number FROM workflows WHERE id = ?", string(after)); err != nil {
			return nil, err
		}
		if before == 0 {
			return nil, taskqueue.ErrWorkflowGone
		}
	}
	if name == "" {
		return records(t.tx, workflowCodec, "SELECT record FROM workflows WHERE number < ? ORDER BY number DESC LIMIT 0+?",
			before, atMost(limit))
	}
	return records(t.tx, workflowCodec, "SELECT record FROM workflows WHERE name = ? AND number < ? ORDER BY number DESC LIMIT 0+?",
		name, before, atMost(limit))
}

// atMost is a LIMIT; SQLite takes a negative one for none. It is written
// "LIMIT 0+?": SQLite plans a query anew whenever a parameter changes that its
// plan rests on, such as a bare LIMIT, or one that is compared with the
// condition of a partial index. That would cost more than the query.
func atMost(limit int) int64 { return int64(max(limit, 0)) }
