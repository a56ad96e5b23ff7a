package mem

import (
	"math"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func (t taskTable) InWorkflow(id task.WorkflowID, after uint64, limit int, states ...task.State) ([]taskqueue.TaskState, error) {
	if after == math.MaxUint64 {
		return nil, nil
	}
	if len(states) == 0 {
		states = task.States()
	}
	states = slices.Compact(slices.Sorted(slices.Values(states)))
	var found []taskqueue.TaskState
	for _, state := range states {
		pivot := &taskRow{TaskState: taskqueue.TaskState{State: state, Seq: after + 1}, workflow: id}
		taken := 0
		t.tasks.byState.from(pivot, func(row *taskRow) bool {
			if taken >= limit || row.workflow != id || row.State != state {
				return false
			}
			taken++
			found = append(found, stateCopy.loaded(row.TaskState))
			return true
		})
	}
	if len(states) > 1 {
		slices.SortFunc(found, func(a, b taskqueue.TaskState) int { return compare(a.Seq, b.Seq) })
	}
	return found[:min(len(found), max(limit, 0))], nil
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (t taskTable) ReadyIn(class taskqueue.ClassID, now taskqueue.Instant, limit int) ([]taskqueue.TaskState, error) {
	var found []taskqueue.TaskState
	pivot := &taskRow{TaskState: taskqueue.TaskState{Class: class, Priority: math.MaxInt}}
	t.tasks.ready.from(pivot, func(row *taskRow) bool {
		if len(found) >= limit || row.Class != class {
			return false
		}
		if row.NotBefore <= now {
			found = append(found, stateCopy.loaded(row.TaskState))
		}
		return true
	})
	return found, nil
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
	pivot := &taskRow{TaskState: taskqueue.TaskState{NotBefore: now, Seq: math.MaxUint64}}
	t.tasks.backoff.from(pivot, func(row *taskRow) bool {
		next = row.NotBefore
		return next <= now
	})
	if next <= now {
		return 0, nil
	}
	return next, nil
}

func (t taskTable) InLease(id task.LeaseID) ([]taskqueue.TaskState, error) {
	var found []taskqueue.TaskState
	t.tasks.leased.from(&taskRow{TaskState: taskqueue.TaskState{Lease: id}}, func(row *taskRow) bool {
		if row.Lease != id {
			return false
		}
		found = append(found, stateCopy.loaded(row.TaskState))
		return true
	})
	return found, nil
}

func (t taskTable) ReadyBefore(class taskqueue.ClassID, priority int, seq uint64) (int, error) {
	pivot := &taskRow{TaskState: taskqueue.TaskState{Class: class, Priority: priority, Seq: seq}}
	first := &taskRow{TaskState: taskqueue.TaskState{Class: class, Priority: math.MaxInt}}
	return t.tasks.ready.rank(pivot) - t.tasks.ready.rank(first), nil
}

func (t taskTable) DoneByMemo(id task.WorkflowID, keys ...task.Digest) ([]taskqueue.TaskState, error) {
	var found []taskqueue.TaskState
	for _, key := range keys {
		pivot := &taskRow{TaskState: taskqueue.TaskState{MemoKey: key}, workflow: id}
		t.tasks.memorable.from(pivot, func(row *taskRow) bool {
			if row.workflow != id || row.MemoKey != key {
				return false
			}
			found = append(found, stateCopy.loaded(row.TaskState))
			return true
		})
	}
	return found, nil
}
