package sqlite

import (
	"database/sql/driver"
	"fmt"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type taskTable struct{ *tx }

func (t taskTable) Describe(ids ...task.ID) ([]task.Task, error) {
	return load(t.tx, taskCodec, "SELECT record FROM descriptions WHERE seq = (SELECT seq FROM tasks WHERE id = ?)", ids)
}

func (t taskTable) Add(tasks []task.Task, states []taskqueue.TaskState) error {
	if err := t.writing(); err != nil {
		return err
	}
	if len(tasks) != len(states) {
		return t.fail(fmt.Errorf("add %d tasks with %d states: give one state for each task", len(tasks), len(states)))
	}
	for i, state := range states {
		if state.ID != tasks[i].ID {
			return t.fail(fmt.Errorf("add task %s with the state of task %s: give them in the same order", tasks[i].ID, state.ID))
		}
		if err := t.addState(state); err != nil {
			return err
		}
		if err := t.write("INSERT INTO descriptions VALUES (?, ?)", int64(state.Seq), taskCodec.Encode(&tasks[i])); err != nil {
			return err
		}
	}
	return nil
}

func (t taskTable) addState(state taskqueue.TaskState) error {
	_, err := t.conn.exec("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		int64(state.Seq), string(state.ID), string(state.ID.Workflow()), int64(state.State), int64(state.Priority),
		int64(state.Class), int64(state.NotBefore), int64(state.Lease), memo(state), stateCodec.Encode(&state))
	if isDuplicate(err) {
		known, asking := t.integer("SELECT count(*) FROM tasks WHERE id = ?", string(state.ID))
		if asking == nil && known > 0 {
			err = fmt.Errorf("add task %s: %w", state.ID, taskqueue.ErrTaskExists)
		}
	}
	if err != nil {
		return t.fail(err)
	}
	t.countReady(state.State, state.Class, +1)
	return nil
}

// memo is the memo key as a column: NULL where there is none.
func memo(state taskqueue.TaskState) driver.Value {
	if state.MemoKey.IsZero() {
		return nil
	}
	return state.MemoKey[:]
}

func (t taskTable) Load(ids ...task.ID) ([]taskqueue.TaskState, error) {
	return load(t.tx, stateCodec, "SELECT record FROM tasks WHERE id = ?", ids)
}

func (t taskTable) Save(states ...taskqueue.TaskState) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, state := range states {
		var seq int64
		var before task.State
		var class taskqueue.ClassID
		err := t.read("SELECT seq, state, class FROM tasks WHERE id = ?", func(row []driver.Value) error {
			seq, before, class = row[0].(int64), task.State(row[1].(int64)), taskqueue.ClassID(row[2].(int64))
			return nil
		}, string(state.ID))
		if err != nil {
			return err
		}
		if before == 0 {
			return t.fail(fmt.Errorf("save the state of task %s: %w", state.ID, taskqueue.ErrTaskAbsent))
		}
		state.Seq = uint64(seq)
		err = t.write("UPDATE tasks SET state = ?, priority = ?, class = ?, not_before = ?, lease = ?, memo = ?, record = ? WHERE seq = ?",
			int64(state.State), int64(state.Priority), int64(state.Class), int64(state.NotBefore), int64(state.Lease), memo(state), stateCodec.Encode(&state), seq)
		if err != nil {
			return err
		}
		t.countReady(before, class, -1)
		t.countReady(state.State, state.Class, +1)
	}
	return nil
}

func (t taskTable) DeleteWorkflow(id task.WorkflowID) error {
	if err := t.writing(); err != nil {
		return err
	}
	err := t.read("SELECT class, count(*) FROM tasks WHERE workflow = ? AND state = 2 GROUP BY class", func(row []driver.Value) error {
		t.countReady(task.Ready, taskqueue.ClassID(row[0].(int64)), -row[1].(int64))
		return nil
	}, string(id))
	if err != nil {
		return err
	}
	for _, sql := range []string{
		"DELETE FROM descriptions WHERE seq IN (SELECT seq FROM tasks WHERE workflow = ?)",
		"DELETE FROM tasks WHERE workflow = ?",
	} {
		if err := t.write(sql, string(id)); err != nil {
			return err
		}
	}
	first, beyond := string(id)+"/", string(id)+"0" // "0" comes next after "/"
	for _, sql := range []string{
		"DELETE FROM uses WHERE reader >= ? AND reader < ?",
		"DELETE FROM attempts WHERE task >= ? AND task < ?",
		"DELETE FROM logs WHERE task >= ? AND task < ?",
	} {
		if err := t.write(sql, first, beyond); err != nil {
			return err
		}
	}
	return nil
}

// countReady notes a change of the number of READY tasks of a class.
func (t *tx) countReady(state task.State, class taskqueue.ClassID, change int64) {
	if state != task.Ready {
		return
	}
	if t.ready == nil {
		t.ready = make(map[taskqueue.ClassID]int64)
	}
	t.ready[class] += change
}

func (t *tx) writeReadyCounts() error {
	for class, change := range t.ready {
		if change == 0 {
			continue
		}
		err := t.write(`INSERT INTO ready_counts VALUES (?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number`,
			int64(class), change)
		if err != nil {
			return err
		}
	}
	clear(t.ready)
	return nil
}
