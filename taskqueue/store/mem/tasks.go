package mem

import (
	"fmt"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type tasks struct {
	rows       directory[task.ID, *taskRow]
	numbers    table[task.WorkflowID, uint64] // of workflows that have tasks
	byAge      order[ageKey]
	ready      order[readyKey]
	backoff    order[backoffKey]
	leased     order[leaseKey]
	memorable  order[memoKey]
	readyCount table[taskqueue.ClassID, int]
	last       *task.Task // description of the task added last
}

func newTasks(inPlace bool) tasks {
	return tasks{
		rows:       newDirectory[task.ID, *taskRow](inPlace),
		numbers:    newTable[task.WorkflowID, uint64](),
		byAge:      newOrder(inPlace, lessByAge),
		ready:      newOrder(inPlace, lessReady),
		backoff:    newOrder(inPlace, lessBackoff),
		leased:     newOrder(inPlace, lessLeased),
		memorable:  newOrder(inPlace, lessMemorable),
		readyCount: newTable[taskqueue.ClassID, int](),
	}
}

func (t tasks) copy() tasks {
	return tasks{
		t.rows.copy(), t.numbers.copy(), t.byAge.copy(), t.ready.copy(), t.backoff.copy(),
		t.leased.copy(), t.memorable.copy(), t.readyCount.copy(), t.last,
	}
}

// move brings the orders up to date with a row that was elsewhere before.
func (t *tasks) move(before, after *places, row *taskRow) {
	t.byAge.move(before.byAge, after.byAge, row)
	t.ready.move(before.ready, after.ready, row)
	t.backoff.move(before.backoff, after.backoff, row)
	t.leased.move(before.leased, after.leased, row)
	t.memorable.move(before.memorable, after.memorable, row)
	if before.ready.in != after.ready.in || before.ready.key.class != after.ready.key.class {
		t.count(before.ready, -1)
		t.count(after.ready, +1)
	}
}

// count keeps the number of READY tasks by class; zeros are not kept.
func (t *tasks) count(ready place[readyKey], change int) {
	if !ready.in {
		return
	}
	number, _ := t.readyCount.get(ready.key.class)
	if number+change == 0 {
		t.readyCount.remove(ready.key.class)
		return
	}
	t.readyCount.set(ready.key.class, number+change)
}

type taskTable struct{ *tx }

func (t taskTable) Describe(ids ...task.ID) ([]task.Task, error) {
	return gather(ids, func(id task.ID, described *task.Task) bool {
		row, ok := t.tasks.rows.get(id)
		if ok {
			taskCopy.load(described, row.description)
			described.ID = row.id
		}
		return ok
	}), nil
}

func (t taskTable) Add(added []task.Task, states []taskqueue.TaskState) error {
	if err := t.writing(); err != nil {
		return err
	}
	if len(added) != len(states) {
		return t.fail(fmt.Errorf("add %d tasks with %d states: give one state for each task", len(added), len(states)))
	}
	for i := range states {
		state := &states[i]
		if state.ID != added[i].ID {
			return t.fail(fmt.Errorf("add task %s with the state of task %s: give them in the same order", added[i].ID, state.ID))
		}
		if _, ok := t.tasks.rows.get(state.ID); ok {
			return t.fail(fmt.Errorf("add task %s: %w", state.ID, taskqueue.ErrTaskExists))
		}
		row := &taskRow{id: state.ID, seq: state.Seq, workflow: t.number(state.ID.Workflow()), description: t.tasks.describe(added[i])}
		row.keep(state)
		t.tasks.rows.set(row.id, row)
		places := row.places()
		t.tasks.move(&nowhere, &places, row)
	}
	return nil
}

// number of a workflow in the keys of orders.
func (t taskTable) number(id task.WorkflowID) uint64 {
	number, known := t.tasks.numbers.get(id)
	if !known {
		number = t.next()
		t.tasks.numbers.set(id, number)
	}
	return number
}

// nowhere is where a task is before it is added and after it is deleted.
var nowhere places

func (t taskTable) Load(ids ...task.ID) ([]taskqueue.TaskState, error) {
	return gather(ids, func(id task.ID, state *taskqueue.TaskState) bool {
		row, ok := t.tasks.rows.get(id)
		if ok {
			row.read(state)
		}
		return ok
	}), nil
}

func (t taskTable) Save(states ...taskqueue.TaskState) error {
	if err := t.writing(); err != nil {
		return err
	}
	for i := range states {
		row, ok := t.tasks.rows.get(states[i].ID)
		if !ok {
			return t.fail(fmt.Errorf("save the state of task %s: %w", states[i].ID, taskqueue.ErrTaskAbsent))
		}
		before := row.places()
		if !t.inPlace {
			own := *row
			row = &own
			t.tasks.rows.set(row.id, row)
		}
		row.keep(&states[i])
		after := row.places()
		t.tasks.move(&before, &after, row)
	}
	return nil
}

func (t taskTable) DeleteWorkflow(id task.WorkflowID) error {
	if err := t.writing(); err != nil {
		return err
	}
	var gone []*taskRow
	number, _ := t.tasks.numbers.get(id)
	t.tasks.byAge.from(ageKey{workflow: number}, func(key ageKey, row *taskRow) bool {
		if key.workflow != number {
			return false
		}
		gone = append(gone, row)
		return true
	})
	for _, row := range gone {
		t.tasks.rows.remove(row.id)
		places := row.places()
		t.tasks.move(&places, &nowhere, nil)
		t.attempts.removeTask(row.id)
	}
	t.tasks.numbers.remove(id)
	t.files.removeUses(id)
	t.attempts.removeWorkflow(id)
	return nil
}
