package mem

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type attemptRow struct {
	taskqueue.Attempt
	order uint64 // of the first report
}

// output is what is kept of an attempt's output streams.
type output struct{ stdout, stderr []byte }

// attempts are few of each task and few at a time on each pilot.
type attempts struct {
	ofTask  directory[task.ID, []*attemptRow]      // in order of first report
	running directory[task.PilotID, []*attemptRow] // in no order
	strays  table[task.ID, struct{}]               // tasks that were not there when an attempt of them was first kept
	logs    table[string, *output]
	inPlace bool
}

func newAttempts(inPlace bool) attempts {
	return attempts{
		ofTask:  newDirectory[task.ID, []*attemptRow](inPlace),
		running: newDirectory[task.PilotID, []*attemptRow](inPlace),
		strays:  newTable[task.ID, struct{}](),
		logs:    newTable[string, *output](),
		inPlace: inPlace,
	}
}

func (a attempts) copy() attempts {
	return attempts{a.ofTask.copy(), a.running.copy(), a.strays.copy(), a.logs.copy(), a.inPlace}
}

func (a attempts) find(id task.AttemptID) *attemptRow {
	rows, _ := a.ofTask.get(id.Task)
	for _, row := range rows {
		if row.Outcome.Attempt == id {
			return row
		}
	}
	return nil
}

// replace puts a row into the place of another, nil at the end, and nil instead
// of a row takes it out. Lists of other versions stay as they are.
func replace(rows []*attemptRow, before, after *attemptRow, inPlace bool) []*attemptRow {
	if !inPlace {
		rows = slices.Clone(rows)
	}
	i := slices.Index(rows, before)
	switch {
	case before == nil || i < 0:
		return append(rows, after)
	case after == nil:
		return slices.Delete(rows, i, i+1)
	}
	rows[i] = after
	return rows
}

// put keeps a row of an attempt in the place of the one before, nil if it is
// new.
func (a attempts) put(before, after *attemptRow) {
	if before != after {
		id := after.Outcome.Attempt.Task
		rows, _ := a.ofTask.get(id)
		a.ofTask.set(id, replace(rows, before, after, a.inPlace))
	}
}

// run notes whether an attempt runs at its pilot, by the row before, if there
// it was in, and the one after, if it is in.
func (a attempts) run(pilot task.PilotID, before, after *attemptRow) {
	if before == after {
		return
	}
	rows, _ := a.running.get(pilot)
	if rows = replace(rows, before, after, a.inPlace); len(rows) == 0 {
		a.running.remove(pilot)
		return
	}
	a.running.set(pilot, rows)
}

// ifRuns is the row, or nil unless its attempt runs.
func (r *attemptRow) ifRuns() *attemptRow {
	if r == nil || r.State != taskqueue.AttemptRunning {
		return nil
	}
	return r
}

func (a attempts) removeTask(id task.ID) {
	for _, row := range a.ofTask.remove(id) {
		a.run(row.Outcome.Attempt.Pilot, row.ifRuns(), nil)
	}
}

// removeWorkflow removes what goes by a workflow's id: logs, and attempts of
// tasks that are not there.
func (a attempts) removeWorkflow(id task.WorkflowID) {
	for _, stray := range within(a.strays, id) {
		a.strays.remove(stray)
		a.removeTask(stray)
	}
	for _, key := range within(a.logs, id) {
		a.logs.remove(key)
	}
}

// within lists the keys that belong to a workflow.
func within[K ~string, V any](from table[K, V], id task.WorkflowID) (keys []K) {
	from.from(K(task.NewID(id, "")), func(key K, _ V) bool {
		if task.ID(key).Workflow() != id {
			return false
		}
		keys = append(keys, key)
		return true
	})
	return keys
}

type attemptTable struct{ *tx }

func (t attemptTable) Load(ids ...task.AttemptID) ([]taskqueue.Attempt, error) {
	return gather(ids, func(id task.AttemptID, attempt *taskqueue.Attempt) bool {
		row := t.attempts.find(id)
		if row != nil {
			attemptCopy.load(attempt, &row.Attempt)
		}
		return row != nil
	}), nil
}

func (t attemptTable) Save(saved ...taskqueue.Attempt) error {
	if err := t.writing(); err != nil {
		return err
	}
	for i := range saved {
		id := saved[i].Outcome.Attempt
		before := t.attempts.find(id)
		ran := before.ifRuns()
		after := before
		if before == nil || !t.inPlace {
			after = &attemptRow{}
		}
		if before != nil {
			after.order = before.order
		} else {
			after.order = t.next()
			if _, known := t.tasks.rows.get(id.Task); !known {
				t.attempts.strays.set(id.Task, struct{}{})
			}
		}
		after.keep(&saved[i])
		t.attempts.put(before, after)
		t.attempts.run(id.Pilot, ran, after.ifRuns())
	}
	return nil
}

// keep takes an attempt over without what has its own table.
func (r *attemptRow) keep(attempt *taskqueue.Attempt) {
	r.Attempt = *attempt
	r.Outcome.Stdout, r.Outcome.Stderr = nil, nil
	attemptCopy.detach(&r.Attempt)
}

func (t attemptTable) OfTask(id task.ID) ([]taskqueue.Attempt, error) {
	rows, _ := t.attempts.ofTask.get(id)
	return readAttempts(rows), nil
}

func (t attemptTable) RunningAt(pilot task.PilotID) ([]taskqueue.Attempt, error) {
	rows, _ := t.attempts.running.get(pilot)
	return readAttempts(slices.SortedFunc(slices.Values(rows), func(x, y *attemptRow) int { return cmp.Compare(x.order, y.order) })), nil
}

// readAttempts copies rows for a caller; none is nil.
func readAttempts(rows []*attemptRow) []taskqueue.Attempt {
	return gather(rows, func(row *attemptRow, attempt *taskqueue.Attempt) bool {
		attemptCopy.load(attempt, &row.Attempt)
		return true
	})
}

func (t attemptTable) SaveLog(id task.AttemptID, stdout, stderr []byte) error {
	if err := t.writing(); err != nil {
		return err
	}
	t.attempts.logs.set(id.String(), &output{bytes.Clone(stdout), bytes.Clone(stderr)})
	return nil
}

func (t attemptTable) LoadLog(id task.AttemptID) (stdout, stderr []byte, err error) {
	log, ok := t.attempts.logs.get(id.String())
	if !ok {
		return nil, nil, nil
	}
	return bytes.Clone(log.stdout), bytes.Clone(log.stderr), nil
}
