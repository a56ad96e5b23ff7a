package sqlite

import (
	"database/sql/driver"
	"math"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func (t taskTable) InWorkflow(id task.WorkflowID, after uint64, limit int, states ...task.State) ([]taskqueue.TaskState, error) {
	if after > math.MaxInt64 {
		return nil, nil
	}
	if len(states) == 0 {
		states = task.States()
	}
	states = slices.Compact(slices.Sorted(slices.Values(states)))
	var values []driver.Value
	for _, state := range states {
		values = append(values, string(id), int64(state), int64(after)-longestRun)
	}
	return t.states(inWorkflow[len(states)], int64(after), limit, values...)
}

// inWorkflow is one query for each number of states: SQLite merges the
// branches, each of which comes sorted from the index. A run that holds tasks
// after a number may begin before it. For "0+?" see atMost.
var inWorkflow = func() (queries [256]string) {
	const branch = "SELECT " + runColumns + " FROM runs WHERE workflow = ? AND state = 0+? AND seq > ?"
	for states := range queries {
		queries[states] = strings.Join(slices.Repeat([]string{branch}, states), " UNION ALL ") + " ORDER BY seq"
	}
	return queries
}()

func (t taskTable) ReadyIn(class taskqueue.ClassID, now taskqueue.Instant, limit int) ([]taskqueue.TaskState, error) {
	return t.states("SELECT "+runColumns+` FROM runs INDEXED BY runs_ready
		WHERE state = 2 AND class = ? AND not_before <= ? ORDER BY priority DESC, seq`, -1, limit, int64(class), int64(now))
}

func (t taskTable) ReadyOf(quotas map[taskqueue.ClassID]int, now taskqueue.Instant, limit, rows int) (found []taskqueue.TaskState, complete bool, err error) {
	left := taskqueue.NewQuotas(quotas)
	if limit < 1 || left.Used() {
		return nil, true, t.usable()
	}
	complete = true
	err = t.read("SELECT "+runColumns+" FROM runs INDEXED BY runs_ready_in_order WHERE state = 2 ORDER BY priority DESC, seq", func(row []driver.Value) error {
		if rows--; rows < 0 {
			complete = false
			return errStop
		}
		n := 0
		if row[5].(int64) <= int64(now) {
			n = left.Take(taskqueue.ClassID(row[4].(int64)), min(int(row[1].(int64)), limit-len(found)))
		}
		if n == 0 {
			return nil
		}
		r, err := t.runOf(row)
		for i := 0; i < n && err == nil; i++ {
			found, err = t.appendState(found, r, i)
		}
		if err == nil && (len(found) == limit || left.Used()) {
			return errStop
		}
		return err
	})
	return found, complete, err
}

func (t taskTable) ReadyClasses() (map[taskqueue.ClassID]int, error) {
	counts := make(map[taskqueue.ClassID]int)
	err := t.read("SELECT class, number FROM ready_counts", func(row []driver.Value) error {
		counts[taskqueue.ClassID(row[0].(int64))] = int(row[1].(int64))
		return nil
	})
	for class, change := range t.ready {
		if counts[class] += int(change); counts[class] == 0 {
			delete(counts, class)
		}
	}
	return counts, err
}

func (t taskTable) NextBackoff(now taskqueue.Instant) (taskqueue.Instant, error) {
	next, err := t.integer(`SELECT not_before FROM runs INDEXED BY runs_backoff
		WHERE state = 2 AND not_before > ? ORDER BY not_before LIMIT 1`, int64(now))
	return taskqueue.Instant(next), err
}

func (t taskTable) InLease(id task.LeaseID) ([]taskqueue.TaskState, error) {
	return t.states("SELECT "+runColumns+" FROM runs INDEXED BY runs_leased WHERE state = 3 AND lease = ? ORDER BY seq",
		-1, math.MaxInt, int64(id))
}

func (t taskTable) ReadyBefore(class taskqueue.ClassID, priority int, seq uint64) (int, error) {
	higher, err := t.integer("SELECT sum(number) FROM runs INDEXED BY runs_ready WHERE state = 2 AND class = ? AND priority > ?",
		int64(class), int64(priority))
	if err != nil {
		return 0, err
	}
	before := int64(min(seq, math.MaxInt64))
	older, err := t.integer(`SELECT sum(min(number, ? - seq)) FROM runs INDEXED BY runs_ready
		WHERE state = 2 AND class = ? AND priority = ? AND seq < ?`, before, int64(class), int64(priority), before)
	return int(higher + older), err
}

func (t taskTable) DoneByMemo(id task.WorkflowID, keys ...task.Digest) (found []taskqueue.TaskState, err error) {
	for _, key := range keys {
		var seqs []int64
		err := t.read("SELECT seq FROM memos WHERE workflow = ? AND memo = ? ORDER BY seq", func(row []driver.Value) error {
			seqs = append(seqs, row[0].(int64))
			return nil
		}, string(id), key[:])
		if err != nil {
			return nil, err
		}
		for _, seq := range seqs {
			r, err := t.runAt(seq)
			if err != nil {
				return nil, err
			}
			if found, err = t.appendState(found, r, int(seq-r.first)); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}
