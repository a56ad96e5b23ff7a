package mem

import (
	"math"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func (t taskTable) InWorkflow(id task.WorkflowID, after uint64, limit int, states ...task.State) ([]taskqueue.TaskState, error) {
	number, known := t.tasks.numbers.get(id)
	if after == math.MaxUint64 || !known {
		return nil, nil
	}
	var found []*taskRow
	t.tasks.byAge.from(ageKey{number, after + 1}, func(key ageKey, row *taskRow) bool {
		if len(found) >= limit || key.workflow != number {
			return false
		}
		if len(states) == 0 || slices.Contains(states, row.state) {
			found = append(found, row)
		}
		return true
	})
	return read(found), nil
}

// read unpacks rows; none is nil.
func read(rows []*taskRow) []taskqueue.TaskState {
	if len(rows) == 0 {
		return nil
	}
	found := make([]taskqueue.TaskState, len(rows))
	for i, row := range rows {
		row.read(&found[i])
	}
	return found
}

func (t taskTable) ReadyIn(class taskqueue.ClassID, now taskqueue.Instant, limit int) ([]taskqueue.TaskState, error) {
	var found []*taskRow
	t.tasks.ready.from(readyKey{class: class, priority: math.MaxInt}, func(key readyKey, row *taskRow) bool {
		if len(found) >= limit || key.class != class {
			return false
		}
		if row.notBefore <= now {
			found = append(found, row)
		}
		return true
	})
	return read(found), nil
}

func (t taskTable) ReadyClasses() (map[taskqueue.ClassID]int, error) {
	counts := make(map[taskqueue.ClassID]int)
	t.tasks.readyCount.each(func(class taskqueue.ClassID, number int) bool {
		counts[class] = number
		return true
	})
	return counts, nil
}

func (t taskTable) NextBackoff(now taskqueue.Instant) (taskqueue.Instant, error) {
	var next taskqueue.Instant
	t.tasks.backoff.from(backoffKey{now, math.MaxUint64}, func(key backoffKey, _ *taskRow) bool {
		next = key.notBefore
		return next <= now
	})
	if next <= now {
		return 0, nil
	}
	return next, nil
}

func (t taskTable) InLease(id task.LeaseID) ([]taskqueue.TaskState, error) {
	var found []*taskRow
	t.tasks.leased.from(leaseKey{lease: id}, func(key leaseKey, row *taskRow) bool {
		if key.lease != id {
			return false
		}
		found = append(found, row)
		return true
	})
	return read(found), nil
}

func (t taskTable) ReadyBefore(class taskqueue.ClassID, priority int, seq uint64) (int, error) {
	return t.tasks.ready.rank(readyKey{class, priority, seq}) - t.tasks.ready.rank(readyKey{class: class, priority: math.MaxInt}), nil
}

func (t taskTable) DoneByMemo(id task.WorkflowID, keys ...task.Digest) ([]taskqueue.TaskState, error) {
	number, known := t.tasks.numbers.get(id)
	if !known {
		return nil, nil
	}
	var found []*taskRow
	for _, memo := range keys {
		t.tasks.memorable.from(memoKey{workflow: number, memo: memo}, func(key memoKey, row *taskRow) bool {
			if key.workflow != number || key.memo != memo {
				return false
			}
			found = append(found, row)
			return true
		})
	}
	return read(found), nil
}
