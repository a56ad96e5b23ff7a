package tables

import (
	"cmp"
	"math"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func (t taskTable) InWorkflow(id task.WorkflowID, after uint64, limit int, states ...task.State) ([]taskqueue.TaskState, error) {
	if after > math.MaxInt64 || limit < 1 {
		return nil, t.usable()
	}
	if len(states) == 0 {
		states = task.States()
	}
	var found []taskqueue.TaskState
	for _, state := range slices.Compact(slices.Sorted(slices.Values(states))) {
		prefix := text(id).number(uint64(state))
		span := under(prefix)
		if after > longestRun {
			span.From = append(slices.Clip(prefix), number(after-longestRun)...)
		}
		some, err := t.states(runsByWorkflow, span, after+1, limit, nil)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	slices.SortFunc(found, func(a, b taskqueue.TaskState) int { return cmp.Compare(a.Seq, b.Seq) })
	if len(found) > limit {
		found = found[:limit]
	}
	return found, nil
}

// states returns, of the runs of a span of an index that are wanted, the tasks from a
// Seq on, at most limit.
func (t *tx) states(index Table, span Span, oldest uint64, limit int, wanted func(Row) bool) (found []taskqueue.TaskState, err error) {
	if limit < 1 {
		return nil, t.usable()
	}
	err = t.scan(index, span, func(row Row) (bool, error) {
		if wanted != nil && !wanted(row) {
			return true, nil
		}
		r, err := t.runAt(firstOf(row.Key))
		if err != nil {
			return false, err
		}
		from := 0
		if oldest > r.first {
			from = int(oldest - r.first)
		}
		for i := from; i < len(r.records) && len(found) < limit; i++ {
			if found, err = t.appendState(found, r, i); err != nil {
				return false, err
			}
		}
		return len(found) < limit, nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (t taskTable) ReadyIn(class taskqueue.ClassID, now taskqueue.Instant, limit int) ([]taskqueue.TaskState, error) {
	return t.states(runsReady, under(number(class)), 0, limit, func(row Row) bool {
		due := parts{rest: row.Value}
		return taskqueue.Instant(due.signed()) <= now
	})
}

func (t taskTable) ReadyOf(quotas map[taskqueue.ClassID]int, now taskqueue.Instant, limit, rows int) (found []taskqueue.TaskState, complete bool, err error) {
	left := taskqueue.NewQuotas(quotas)
	if limit < 1 || left.Used() {
		return nil, true, t.usable()
	}
	complete = true
	err = t.scan(runsReadyInOrder, Span{}, func(row Row) (bool, error) {
		if rows--; rows < 0 {
			complete = false
			return false, nil
		}
		at, n := parts{rest: row.Value}, 0
		class, due, count := taskqueue.ClassID(at.number()), taskqueue.Instant(at.signed()), int(at.number())
		if due <= now {
			n = left.Take(class, min(count, limit-len(found)))
		}
		if n == 0 {
			return true, at.err
		}
		r, err := t.runAt(firstOf(row.Key))
		for i := 0; i < n && err == nil; i++ {
			found, err = t.appendState(found, r, i)
		}
		return len(found) < limit && !left.Used(), err
	})
	if err != nil {
		return nil, false, err
	}
	return found, complete, nil
}

func (t taskTable) ReadyClasses() (map[taskqueue.ClassID]int, error) {
	counts := make(map[taskqueue.ClassID]int)
	err := t.scan(readyCounts, Span{}, func(row Row) (bool, error) {
		class, count := parts{rest: row.Key}, parts{rest: row.Value}
		counts[taskqueue.ClassID(class.number())] = int(count.number())
		return true, count.err
	})
	for class, change := range t.ready {
		if counts[class] += int(change); counts[class] == 0 {
			delete(counts, class)
		}
	}
	return counts, err
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

// writeReadyCounts brings the table of counts up to date. Its error is that of the Tx.
func (t *tx) writeReadyCounts() {
	for class, change := range t.ready {
		if change != 0 {
			_, _ = t.count(readyCounts, number(class), uint64(change))
		}
	}
	clear(t.ready)
}

func (t taskTable) NextBackoff(now taskqueue.Instant) (next taskqueue.Instant, err error) {
	err = t.scan(runsInBackoff, Span{From: beyond(key(nil).signed(int64(now)))}, func(row Row) (bool, error) {
		due := parts{rest: row.Key}
		next = taskqueue.Instant(due.signed())
		return false, due.err
	})
	return next, err
}

func (t taskTable) Pausing(now taskqueue.Instant, limit int) ([]taskqueue.TaskState, error) {
	return t.states(runsInBackoff, Span{From: beyond(key(nil).signed(int64(now)))}, 0, limit, nil)
}

func (t taskTable) InLease(id task.LeaseID) ([]taskqueue.TaskState, error) {
	return t.states(runsLeased, under(number(id)), 0, noLimit, nil)
}

func (t taskTable) ReadyBefore(class taskqueue.ClassID, priority int, seq uint64) (count int, err error) {
	span := Span{From: number(class), Before: number(class).signed(-int64(priority)).number(seq)}
	err = t.scan(runsReady, span, func(row Row) (bool, error) {
		at, value := parts{rest: row.Key[8:]}, parts{rest: row.Value[8:]}
		higher, n := -at.signed() > int64(priority), value.number()
		if first := at.number(); !higher && first+n > seq {
			n = seq - first
		}
		count += int(n)
		return true, value.err
	})
	return count, err
}

func (t taskTable) DoneByMemo(id task.WorkflowID, keys ...task.Digest) (found []taskqueue.TaskState, err error) {
	for _, memo := range keys {
		if memo.IsZero() {
			continue
		}
		var seqs []uint64
		err := t.scan(memos, under(append(text(id), memo[:]...)), func(row Row) (bool, error) {
			seqs = append(seqs, firstOf(row.Key))
			return true, nil
		})
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
