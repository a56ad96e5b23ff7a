package mem

import (
	"bytes"
	"fmt"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type taskRow struct {
	taskqueue.TaskState
	workflow    task.WorkflowID
	description *task.Task
}

type tasks struct {
	rows       table[task.ID, *taskRow]
	byState    index[taskRow] // workflow, state, age
	ready      index[taskRow] // READY: class, priority, age
	backoff    index[taskRow] // READY with NotBefore, earliest first
	leased     index[taskRow] // LEASED: lease, age
	memorable  index[taskRow] // DONE with memo key: workflow, key, age
	readyCount table[taskqueue.ClassID, int]
}

func newTasks() tasks {
	return tasks{
		rows:    newTable[task.ID, *taskRow](),
		byState: newIndex(lessByState, nil),
		ready:   newIndex(lessReady, func(t *taskRow) bool { return t.State == task.Ready }),
		backoff: newIndex(lessBackoff, func(t *taskRow) bool { return t.State == task.Ready && t.NotBefore > 0 }),
		leased:  newIndex(lessLeased, func(t *taskRow) bool { return t.State == task.Leased }),
		memorable: newIndex(lessMemorable, func(t *taskRow) bool {
			return t.State == task.Done && !t.MemoKey.IsZero()
		}),
		readyCount: newTable[taskqueue.ClassID, int](),
	}
}

func (t tasks) copy() tasks {
	return tasks{
		t.rows.copy(), t.byState.copy(), t.ready.copy(), t.backoff.copy(),
		t.leased.copy(), t.memorable.copy(), t.readyCount.copy(),
	}
}

func lessByState(a, b *taskRow) bool {
	if a.workflow != b.workflow {
		return a.workflow < b.workflow
	}
	if a.State != b.State {
		return a.State < b.State
	}
	return a.Seq < b.Seq
}

func lessReady(a, b *taskRow) bool {
	if a.Class != b.Class {
		return a.Class < b.Class
	}
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.Seq < b.Seq
}

func lessBackoff(a, b *taskRow) bool {
	if a.NotBefore != b.NotBefore {
		return a.NotBefore < b.NotBefore
	}
	return a.Seq < b.Seq
}

func lessLeased(a, b *taskRow) bool {
	if a.Lease != b.Lease {
		return a.Lease < b.Lease
	}
	return a.Seq < b.Seq
}

func lessMemorable(a, b *taskRow) bool {
	if a.workflow != b.workflow {
		return a.workflow < b.workflow
	}
	if order := bytes.Compare(a.MemoKey[:], b.MemoKey[:]); order != 0 {
		return order < 0
	}
	return a.Seq < b.Seq
}

func (t tasks) replace(before, after *taskRow) {
	t.byState.replace(before, after)
	t.ready.replace(before, after)
	t.backoff.replace(before, after)
	t.leased.replace(before, after)
	t.memorable.replace(before, after)
	t.count(before, -1)
	t.count(after, +1)
}

// count keeps the number of READY tasks by class; zeros are not kept.
func (t tasks) count(row *taskRow, change int) {
	if row == nil || row.State != task.Ready {
		return
	}
	number, _ := t.readyCount.get(row.Class)
	if number+change == 0 {
		t.readyCount.remove(row.Class)
		return
	}
	t.readyCount.set(row.Class, number+change)
}

type taskTable struct{ *tx }

func (t taskTable) Describe(ids ...task.ID) ([]task.Task, error) {
	return gather(ids, func(id task.ID) (described task.Task, ok bool) {
		row, ok := t.tasks.rows.get(id)
		if ok {
			described = taskCopy.loaded(*row.description)
		}
		return described, ok
	}), nil
}

func (t taskTable) Add(added []task.Task, states []taskqueue.TaskState) error {
	if err := t.writing(); err != nil {
		return err
	}
	if len(added) != len(states) {
		return t.fail(fmt.Errorf("add %d tasks with %d states: give one state for each task", len(added), len(states)))
	}
	for i, state := range states {
		if state.ID != added[i].ID {
			return t.fail(fmt.Errorf("add task %s with the state of task %s: give them in the same order", added[i].ID, state.ID))
		}
		if _, ok := t.tasks.rows.get(state.ID); ok {
			return t.fail(fmt.Errorf("add task %s: %w", state.ID, taskqueue.ErrTaskExists))
		}
		description := taskCopy.saved(added[i])
		row := &taskRow{TaskState: stateCopy.saved(state), workflow: state.ID.Workflow(), description: &description}
		t.tasks.rows.set(state.ID, row)
		t.tasks.replace(nil, row)
	}
	return nil
}

func (t taskTable) Load(ids ...task.ID) ([]taskqueue.TaskState, error) {
	return gather(ids, func(id task.ID) (state taskqueue.TaskState, ok bool) {
		row, ok := t.tasks.rows.get(id)
		if ok {
			state = stateCopy.loaded(row.TaskState)
		}
		return state, ok
	}), nil
}

func (t taskTable) Save(states ...taskqueue.TaskState) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, state := range states {
		before, ok := t.tasks.rows.get(state.ID)
		if !ok {
			return t.fail(fmt.Errorf("save the state of task %s: %w", state.ID, taskqueue.ErrTaskAbsent))
		}
		row := &taskRow{TaskState: stateCopy.saved(state), workflow: before.workflow, description: before.description}
		row.Seq = before.Seq
		t.tasks.rows.set(state.ID, row)
		t.tasks.replace(before, row)
	}
	return nil
}

func (t taskTable) DeleteWorkflow(id task.WorkflowID) error {
	if err := t.writing(); err != nil {
		return err
	}
	var gone []*taskRow
	t.tasks.rows.from(task.NewID(id, ""), func(_ task.ID, row *taskRow) bool {
		if row.workflow != id {
			return false
		}
		gone = append(gone, row)
		return true
	})
	for _, row := range gone {
		t.tasks.rows.remove(row.ID)
		t.tasks.replace(row, nil)
	}
	t.files.removeUses(id)
	t.attempts.removeWorkflow(id)
	return nil
}
