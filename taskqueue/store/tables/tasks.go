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
	keys := make([][]byte, len(states))
	rows := make([]edit, len(states))
	for i := range states {
		if states[i].ID != tasks[i].ID {
			return t.fail(fmt.Errorf("add task %s with the state of task %s: give them in the same order", tasks[i].ID, states[i].ID))
		}
		keys[i] = text(states[i].ID)
		rows[i] = edit{keys[i], nil, number(states[i].Seq)}
	}
	if len(keys) == 0 {
		return nil
	}
	there, err := t.get(names, keys...)
	if err != nil {
		return err
	}
	twice := make(map[task.ID]bool, len(states))
	for i, found := range there {
		if found != nil || twice[states[i].ID] {
			return t.fail(fmt.Errorf("add task %s: %w", states[i].ID, taskqueue.ErrTaskExists))
		}
		twice[states[i].ID] = true
	}
	if err := t.edit(names, rows...); err != nil {
		return err
	}
	c := make(changes)
	for from := 0; from < len(states); {
		to := from + 1
		for to < len(states) && to-from < longestRun && states[to].Seq == states[to-1].Seq+1 &&
			states[to].ID.Workflow() == states[from].ID.Workflow() {
			to++
		}
		t.addNeighbours(c, tasks[from:to], states[from:to])
		from = to
	}
	return t.apply(c)
}

// addNeighbours adds tasks that follow each other in age. Their descriptions
// share a row, which begins where one of their runs does.
func (t taskTable) addNeighbours(c changes, tasks []task.Task, states []taskqueue.TaskState) {
	members, described := make([]member, len(states)), make([][]byte, len(states))
	for i := range states {
		s := &states[i]
		if s.State == task.Done {
			addMemo(c, s)
		}
		members[i], described[i] = newMember(s), taskCodec.Encode(&tasks[i])
		t.countReady(s.State, s.Class, +1)
	}
	c.replace(nil, cut(states[0].ID.Workflow(), states[0].Seq, members))
	value := append(number(uint64(len(described))), record.Bind(described)...)
	c.add(descriptions, edit{number(states[0].Seq), nil, value})
}

func memoKey(s *taskqueue.TaskState) key {
	return append(text(s.ID.Workflow()), s.MemoKey[:]...).number(s.Seq)
}

func addMemo(c changes, s *taskqueue.TaskState) {
	if !s.MemoKey.IsZero() {
		c.add(memos, edit{memoKey(s), nil, number(s.Seq)})
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
	value, err := t.getOne(names, text(id))
	if err != nil || value == nil {
		return 0, false, err
	}
	return binary.BigEndian.Uint64(value), true, nil
}

// findSeqs looks up numbers of many tasks at once.
func (t *tx) findSeqs(ids []task.ID) error {
	var keys [][]byte
	var asked []task.ID
	for _, id := range ids {
		if _, known := t.seqs[id]; !known {
			keys, asked = append(keys, text(id)), append(asked, id)
		}
	}
	if len(keys) < 2 {
		return nil
	}
	values, err := t.get(names, keys...)
	if err != nil {
		return err
	}
	for i, value := range values {
		if value != nil {
			t.remember(asked[i], binary.BigEndian.Uint64(value))
		}
	}
	return nil
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
	if err := t.findSeqs(ids); err != nil {
		return nil, err
	}
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
		at, value := parts{rest: found.Key}, parts{rest: found.Value}
		first = at.number()
		count := value.number()
		var err error
		row, err = record.Unbind(value.rest, int(count))
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
	if err := t.findSeqs(ids); err != nil {
		return nil, err
	}
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
	ids := make([]task.ID, len(states))
	for i := range states {
		ids[i] = states[i].ID
	}
	if err := t.findSeqs(ids); err != nil {
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
	c := make(changes)
	for len(list) > 0 {
		r, err := t.runAt(list[0].seq)
		if err != nil {
			return err
		}
		n := 1
		for n < len(list) && list[n].seq < r.beyond() {
			n++
		}
		if err := t.changeRun(c, r, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	t.at = nil
	return t.apply(c)
}

// changeRun changes tasks of one run.
func (t taskTable) changeRun(c changes, r *run, list []change) error {
	members := r.members()
	for _, each := range list {
		m := &members[each.seq-r.first]
		if m.traits.state == task.Done {
			if err := t.dropMemo(c, m, each); err != nil {
				return err
			}
		}
		if each.state.State == task.Done {
			saved := *each.state
			saved.Seq = each.seq
			addMemo(c, &saved)
		}
		t.countReady(m.traits.state, m.traits.class, -1)
		*m = newMember(each.state)
		t.countReady(m.traits.state, m.traits.class, +1)
	}
	c.replace(r, cut(r.workflow, r.first, members))
	return nil
}

// dropMemo takes a DONE task that changes out of what is found by memo key.
func (t taskTable) dropMemo(c changes, m *member, each change) error {
	var before taskqueue.TaskState
	if err := stateCodec.Decode(m.record, &before); err != nil {
		return t.damaged(runs, err)
	}
	if before.MemoKey.IsZero() {
		return nil
	}
	before.ID, before.Seq = each.state.ID, each.seq
	c.add(memos, edit{memoKey(&before), number(before.Seq), nil})
	return nil
}

// underWorkflow is the span of keys that begin with the id of one of its tasks.
func underWorkflow(id task.WorkflowID) Span { return under(key(id + "/")) }

func (t taskTable) DeleteWorkflow(id task.WorkflowID) error {
	if err := t.writing(); err != nil {
		return err
	}
	var firsts [][]byte
	err := t.scan(runsByWorkflow, under(text(id)), func(row Row) (bool, error) {
		firsts = append(firsts, row.Value)
		return true, nil
	})
	if err != nil {
		return err
	}
	t.at = nil
	clear(t.seqs)
	c := make(changes)
	found, err := t.get(runs, firsts...)
	if err != nil {
		return err
	}
	described, err := t.get(descriptions, firsts...) // begin where some runs do
	if err != nil {
		return err
	}
	for i, first := range firsts {
		r, err := t.runOf(Row{first, found[i]})
		if err != nil {
			return err
		}
		t.countReady(r.traits.state, r.traits.class, -int64(len(r.records)))
		c.replace(r, nil)
		if described[i] != nil {
			c.add(descriptions, edit{first, described[i], nil})
		}
	}
	if err := t.dropRunning(c, id); err != nil {
		return err
	}
	if err := t.apply(c); err != nil {
		return err
	}
	if err := (fileTable{t.tx}).dropUses(id); err != nil {
		return err
	}
	if err := t.clear(memos, under(text(id))); err != nil {
		return err
	}
	for _, table := range []Table{names, attempts, logs} {
		if err := t.clear(table, underWorkflow(id)); err != nil {
			return err
		}
	}
	return nil
}

// dropRunning takes a workflow's attempts out of what runs at pilots.
func (t taskTable) dropRunning(c changes, id task.WorkflowID) error {
	return t.scan(attempts, underWorkflow(id), func(row Row) (bool, error) {
		var a stored[taskqueue.Attempt]
		if err := attemptKind.decode(t.tx, row.Value, &a); err != nil {
			return false, err
		}
		for _, index := range attemptKind.indexes {
			for _, e := range index.entry(&a, row.Key, true) {
				c.add(index.table, e)
			}
		}
		return true, nil
	})
}
