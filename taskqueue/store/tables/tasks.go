package tables

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type taskTable struct{ *tx }

var taskCodec = record.New[task.Task]()

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
		name := text(states[i].ID)
		there, err := t.get(names, name)
		if err != nil {
			return err
		}
		if there != nil {
			return t.fail(fmt.Errorf("add task %s: %w", states[i].ID, taskqueue.ErrTaskExists))
		}
		t.put(names, name, number(states[i].Seq))
	}
	for from := 0; from < len(states); {
		to := from + 1
		for to < len(states) && to-from < longestRun && states[to].Seq == states[to-1].Seq+1 &&
			states[to].ID.Workflow() == states[from].ID.Workflow() {
			to++
		}
		t.addNeighbours(tasks[from:to], states[from:to])
		from = to
	}
	return t.writing()
}

// addNeighbours adds tasks that follow each other in age. Their descriptions
// share a row, which begins where one of their runs does.
func (t taskTable) addNeighbours(tasks []task.Task, states []taskqueue.TaskState) {
	members, described := make([]member, len(states)), make([][]byte, len(states))
	for i := range states {
		s := &states[i]
		if s.State == task.Done {
			t.addMemo(s)
		}
		members[i], described[i] = newMember(s), taskCodec.Encode(&tasks[i])
		t.countReady(s.State, s.Class, +1)
	}
	t.replace(nil, cut(states[0].ID.Workflow(), states[0].Seq, members))
	value := binary.AppendUvarint(nil, uint64(len(described)))
	t.put(descriptions, number(states[0].Seq), append(value, record.Bind(described)...))
}

func memoKey(s *taskqueue.TaskState) key {
	return append(text(s.ID.Workflow()), s.MemoKey[:]...).number(s.Seq)
}

func (t taskTable) addMemo(s *taskqueue.TaskState) {
	if !s.MemoKey.IsZero() {
		t.put(memos, memoKey(s), nil)
	}
}

// seqOf returns a task's Seq, by which its rows are found.
func (t *tx) seqOf(id task.ID) (seq uint64, known bool, err error) {
	if err := t.usable(); err != nil {
		return 0, false, err
	}
	if seq, known := t.seqs[id]; known {
		return seq, true, nil
	}
	value, err := t.get(names, text(id))
	if err != nil || value == nil {
		return 0, false, err
	}
	return binary.BigEndian.Uint64(value), true, nil
}

// mostRemembered bounds how many tasks' numbers a Tx keeps in memory.
const mostRemembered = 1 << 15

// remember keeps the number of a task that was read: what is read is mostly
// described and saved next.
func (t *tx) remember(id task.ID, seq uint64) {
	if t.seqs == nil || len(t.seqs) == mostRemembered {
		t.seqs = make(map[task.ID]uint64)
	}
	t.seqs[id] = seq
}

func (t taskTable) Describe(ids ...task.ID) (found []task.Task, err error) {
	var first uint64
	var row [][]byte // descriptions of the tasks from first on
	for _, id := range ids {
		seq, known, err := t.seqOf(id)
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		if seq < first || seq >= first+uint64(len(row)) {
			if first, row, err = t.descriptionsAt(seq); err != nil {
				return nil, err
			}
		}
		found = append(found, task.Task{})
		if err := taskCodec.Decode(row[seq-first], &found[len(found)-1]); err != nil {
			return nil, t.damaged(descriptions, err)
		}
	}
	return found, t.usable()
}

// descriptionsAt returns the row of descriptions that a task's is in.
func (t taskTable) descriptionsAt(seq uint64) (first uint64, row [][]byte, err error) {
	err = t.scan(descriptions, Span{Before: number(seq + 1), Down: true}, func(found Row) (bool, error) {
		first = firstOf(found.Key)
		count, n := binary.Uvarint(found.Value)
		if n <= 0 {
			return false, errCut
		}
		var err error
		row, err = record.Unbind(found.Value[n:], int(count))
		return false, err
	})
	if err == nil && seq >= first+uint64(len(row)) {
		err = fmt.Errorf("task number %d has a name and no description", seq)
	}
	if err != nil {
		return 0, nil, t.damaged(descriptions, err)
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
	seq   uint64
	state *taskqueue.TaskState
}

func (t taskTable) Save(states ...taskqueue.TaskState) error {
	if err := t.writing(); err != nil {
		return err
	}
	list := make([]change, len(states))
	for i := range states {
		seq, known, err := t.seqOf(states[i].ID)
		if err != nil {
			return err
		}
		if !known {
			return t.fail(fmt.Errorf("save the state of task %s: %w", states[i].ID, taskqueue.ErrTaskAbsent))
		}
		list[i] = change{seq, &states[i]}
	}
	slices.SortStableFunc(list, func(a, b change) int { return cmp.Compare(a.seq, b.seq) })
	for len(list) > 0 {
		r, err := t.runAt(list[0].seq)
		if err != nil {
			return err
		}
		n := 1
		for n < len(list) && list[n].seq < r.beyond() {
			n++
		}
		if err := t.changeRun(r, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return t.writing()
}

// changeRun changes tasks of one run.
func (t taskTable) changeRun(r *run, list []change) error {
	members := r.members()
	for _, each := range list {
		m := &members[each.seq-r.first]
		if m.traits.state == task.Done {
			if err := t.dropMemo(m, each); err != nil {
				return err
			}
		}
		if each.state.State == task.Done {
			saved := *each.state
			saved.Seq = each.seq
			t.addMemo(&saved)
		}
		t.countReady(m.traits.state, m.traits.class, -1)
		*m = newMember(each.state)
		t.countReady(m.traits.state, m.traits.class, +1)
	}
	t.replace(r, cut(r.workflow, r.first, members))
	return nil
}

// dropMemo takes a DONE task that changes out of what is found by memo key.
func (t taskTable) dropMemo(m *member, each change) error {
	var before taskqueue.TaskState
	if err := stateCodec.Decode(m.record, &before); err != nil {
		return t.damaged(runs, err)
	}
	if before.MemoKey.IsZero() {
		return nil
	}
	before.ID, before.Seq = each.state.ID, each.seq
	t.drop(memos, memoKey(&before))
	return nil
}

// underWorkflow is the span of keys that begin with the id of one of its tasks.
func underWorkflow(id task.WorkflowID) Span { return under(key(id + "/")) }

// DeleteWorkflow forgets names before states: a task without a name is not there.
func (t taskTable) DeleteWorkflow(id task.WorkflowID, limit int) (more bool, err error) {
	if err := t.writing(); err != nil {
		return false, err
	}
	clear(t.seqs)
	left := limit
	for _, step := range []struct {
		table Table
		span  Span
		also  func(Row) error
	}{
		{attempts, underWorkflow(id), t.dropRunning},
		{usesByReader, underWorkflow(id), t.Files().(fileTable).dropUse},
		{memos, under(text(id)), nil}, {names, underWorkflow(id), nil}, {logs, underWorkflow(id), nil},
		{runsByWorkflow, under(text(id)), nil},
	} {
		if step.table == runsByWorkflow {
			err = t.dropRuns(step.span, &left)
		} else {
			err = t.clear(step.table, step.span, &left, step.also)
		}
		if err != nil || left <= 0 {
			return true, err
		}
	}
	return false, t.writing()
}

// dropRuns forgets runs of a workflow until left is used up.
func (t taskTable) dropRuns(span Span, left *int) error {
	var firsts []uint64
	err := t.scan(runsByWorkflow, span, func(row Row) (bool, error) {
		firsts = append(firsts, firstOf(row.Key))
		return len(firsts) < *left, nil
	})
	if err != nil {
		return err
	}
	for _, first := range firsts {
		if *left <= 0 {
			return nil
		}
		r, err := t.runAt(first)
		if err != nil {
			return err
		}
		t.countReady(r.traits.state, r.traits.class, -int64(len(r.records)))
		t.replace(r, nil)
		t.drop(descriptions, number(first)) // begin where some runs do
		*left -= len(r.records)
	}
	return nil
}

// dropRunning takes an attempt out of what runs at pilots.
func (t taskTable) dropRunning(row Row) error {
	a, err := attemptKind.decode(t.tx, row)
	for _, index := range attemptKind.indexes {
		index.replace(t.tx, nil, index.of(&a, err == nil), nil)
	}
	return err
}
