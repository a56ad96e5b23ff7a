package sqlite

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type taskTable struct{ *tx }

func (t taskTable) Add(tasks []task.Task, states []taskqueue.TaskState) error {
	if err := t.writing(); err != nil {
		return err
	}
	if len(tasks) != len(states) {
		return t.fail(fmt.Errorf("add %d tasks with %d states: give one state for each task", len(tasks), len(states)))
	}
	for i := range states {
		if states[i].ID != tasks[i].ID {
			return t.fail(fmt.Errorf("add task %s with the state of task %s: give them in the same order", tasks[i].ID, states[i].ID))
		}
	}
	for from := 0; from < len(states); {
		to := from + 1
		for to < len(states) && to-from < longestRun && states[to].Seq == states[to-1].Seq+1 &&
			states[to].ID.Workflow() == states[from].ID.Workflow() {
			to++
		}
		if err := t.addNeighbours(tasks[from:to], states[from:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// addNeighbours adds tasks that follow each other in age. Their descriptions
// share a row, which begins where one of their runs does.
func (t taskTable) addNeighbours(tasks []task.Task, states []taskqueue.TaskState) error {
	first, workflow := int64(states[0].Seq), states[0].ID.Workflow()
	members, described := make([]member, len(states)), make([][]byte, len(states))
	for i := range states {
		s := &states[i]
		_, err := t.conn.exec("INSERT INTO names VALUES (?, ?)", string(s.ID), int64(s.Seq))
		if isDuplicate(err) {
			err = fmt.Errorf("add task %s: %w", s.ID, taskqueue.ErrTaskExists)
		}
		if err == nil && s.State == task.Done {
			err = t.addMemo(s)
		}
		if err != nil {
			return t.fail(err)
		}
		members[i], described[i] = newMember(s), taskCodec.Encode(&tasks[i])
		t.countReady(s.State, s.Class, +1)
	}
	for _, r := range cut(first, members) {
		if err := t.insertRun(workflow, &r); err != nil {
			return err
		}
	}
	return t.write("INSERT INTO descriptions VALUES (?, ?, ?)", first, record.Bind(described), int64(len(described)))
}

func (t taskTable) Describe(ids ...task.ID) (found []task.Task, err error) {
	var first int64
	var row [][]byte // descriptions of the tasks from first on
	for _, id := range ids {
		seq, known, err := t.seqOf(id)
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		if seq < first || seq >= first+int64(len(row)) {
			if first, row, err = t.descriptionsAt(seq); err != nil {
				return nil, err
			}
		}
		if found, err = appendDecoded(found, t.tx, taskCodec, row[seq-first]); err != nil {
			return nil, err
		}
	}
	return found, t.usable()
}

// descriptionsAt returns the row of descriptions that a task's is in.
func (t taskTable) descriptionsAt(seq int64) (first int64, row [][]byte, err error) {
	err = t.read("SELECT seq, records, number FROM descriptions WHERE seq <= ? ORDER BY seq DESC LIMIT 1", func(found []driver.Value) (err error) {
		first = found[0].(int64)
		row, err = record.Unbind(found[1].([]byte), int(found[2].(int64)))
		return err
	}, seq)
	if err == nil && seq >= first+int64(len(row)) {
		err = fmt.Errorf("task number %d has a name and no description", seq)
	}
	if err != nil {
		return 0, nil, t.damaged(err)
	}
	return first, row, nil
}

func (t taskTable) Load(ids ...task.ID) (found []taskqueue.TaskState, err error) {
	for _, id := range ids {
		seq, known, err := t.seqOf(id)
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		r, err := t.runAt(seq)
		if err != nil {
			return nil, err
		}
		if found, err = t.appendState(found, r, int(seq-r.first)); err != nil {
			return nil, err
		}
	}
	return found, t.usable()
}

// change is the new state of a task.
type change struct {
	seq   int64
	state *taskqueue.TaskState
}

func (t taskTable) Save(states ...taskqueue.TaskState) error {
	if err := t.writing(); err != nil {
		return err
	}
	changes := make([]change, len(states))
	for i := range states {
		seq, known, err := t.seqOf(states[i].ID)
		if err != nil {
			return err
		}
		if !known {
			return t.fail(fmt.Errorf("save the state of task %s: %w", states[i].ID, taskqueue.ErrTaskAbsent))
		}
		changes[i] = change{seq, &states[i]}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.seq, b.seq) })
	for len(changes) > 0 {
		r, err := t.runAt(changes[0].seq)
		if err != nil {
			return err
		}
		n := 1
		for n < len(changes) && changes[n].seq < r.beyond() {
			n++
		}
		if err := t.changeRun(r, changes[:n]); err != nil {
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// changeRun changes tasks of one run.
func (t taskTable) changeRun(r *run, changes []change) error {
	members := r.members()
	for _, c := range changes {
		m := &members[c.seq-r.first]
		if m.traits.state == task.Done {
			if err := t.dropMemo(m, c); err != nil {
				return err
			}
		}
		if c.state.State == task.Done {
			saved := *c.state
			saved.Seq = uint64(c.seq)
			if err := t.addMemo(&saved); err != nil {
				return err
			}
		}
		t.countReady(m.traits.state, m.traits.class, -1)
		*m = newMember(c.state)
		t.countReady(m.traits.state, m.traits.class, +1)
	}
	return t.replaceRun(changes[0].state.ID.Workflow(), r, cut(r.first, members))
}

func (t taskTable) addMemo(s *taskqueue.TaskState) error {
	if s.MemoKey.IsZero() {
		return nil
	}
	return t.write("INSERT OR IGNORE INTO memos VALUES (?, ?, ?)", string(s.ID.Workflow()), s.MemoKey[:], int64(s.Seq))
}

// dropMemo takes a DONE task that changes out of what is found by memo key.
func (t taskTable) dropMemo(m *member, c change) error {
	before, err := appendDecoded[taskqueue.TaskState](nil, t.tx, stateCodec, m.record)
	if err != nil || before[0].MemoKey.IsZero() {
		return err
	}
	return t.write("DELETE FROM memos WHERE workflow = ? AND memo = ? AND seq = ?",
		string(c.state.ID.Workflow()), before[0].MemoKey[:], c.seq)
}

func (t taskTable) DeleteWorkflow(id task.WorkflowID) error {
	if err := t.writing(); err != nil {
		return err
	}
	err := t.read("SELECT class, sum(number) FROM runs WHERE workflow = ? AND state = 2 GROUP BY class", func(row []driver.Value) error {
		t.countReady(task.Ready, taskqueue.ClassID(row[0].(int64)), -row[1].(int64))
		return nil
	}, string(id))
	if err != nil {
		return err
	}
	t.at = nil
	clear(t.seqs)
	for _, sql := range []string{
		"DELETE FROM descriptions WHERE seq IN (SELECT seq FROM runs WHERE workflow = ?)",
		"DELETE FROM runs WHERE workflow = ?",
		"DELETE FROM memos WHERE workflow = ?",
	} {
		if err := t.write(sql, string(id)); err != nil {
			return err
		}
	}
	first, beyond := string(id)+"/", string(id)+"0" // "0" comes next after "/"
	for _, sql := range []string{
		"DELETE FROM names WHERE id >= ? AND id < ?",
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
