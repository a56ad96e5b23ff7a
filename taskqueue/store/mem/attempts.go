package mem

import (
	"bytes"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type attemptRow struct {
	taskqueue.Attempt
	key   string // task and suffix
	task  task.ID
	order uint64 // of the first report
}

// output is what is kept of an attempt's output streams.
type output struct{ stdout, stderr []byte }

type attempts struct {
	rows    table[string, *attemptRow]
	byTask  index[attemptRow]
	running index[attemptRow]
	logs    table[string, *output]
}

func newAttempts() attempts {
	return attempts{
		rows: newTable[string, *attemptRow](),
		byTask: newIndex(func(a, b *attemptRow) bool {
			if a.task != b.task {
				return a.task < b.task
			}
			return a.order < b.order
		}, nil),
		running: newIndex(func(a, b *attemptRow) bool {
			if a.pilot() != b.pilot() {
				return a.pilot() < b.pilot()
			}
			return a.order < b.order
		}, func(a *attemptRow) bool { return a.State == taskqueue.AttemptRunning }),
		logs: newTable[string, *output](),
	}
}

func (a *attemptRow) pilot() task.PilotID { return a.Outcome.Attempt.Pilot }

func (a attempts) copy() attempts {
	return attempts{a.rows.copy(), a.byTask.copy(), a.running.copy(), a.logs.copy()}
}

func (a attempts) replace(before, after *attemptRow) {
	a.byTask.replace(before, after)
	a.running.replace(before, after)
}

func (a attempts) removeWorkflow(id task.WorkflowID) {
	var gone []*attemptRow
	a.byTask.from(&attemptRow{task: task.NewID(id, "")}, func(row *attemptRow) bool {
		if row.task.Workflow() != id {
			return false
		}
		gone = append(gone, row)
		return true
	})
	for _, row := range gone {
		a.rows.remove(row.key)
		a.replace(row, nil)
	}
	var logs []string
	prefix := string(task.NewID(id, ""))
	a.logs.from(prefix, func(key string, _ *output) bool {
		if task.ID(key).Workflow() != id {
			return false
		}
		logs = append(logs, key)
		return true
	})
	for _, key := range logs {
		a.logs.remove(key)
	}
}

type attemptTable struct{ *tx }

func (t attemptTable) Load(ids ...task.AttemptID) ([]taskqueue.Attempt, error) {
	return gather(ids, func(id task.AttemptID) (attempt taskqueue.Attempt, ok bool) {
		row, ok := t.attempts.rows.get(id.String())
		if ok {
			attempt = attemptCopy.loaded(row.Attempt)
		}
		return attempt, ok
	}), nil
}

func (t attemptTable) Save(saved ...taskqueue.Attempt) error {
	if err := t.writing(); err != nil {
		return err
	}
	for _, attempt := range saved {
		id := attempt.Outcome.Attempt
		attempt.Outcome.Stdout, attempt.Outcome.Stderr = nil, nil // have their own table
		row := &attemptRow{Attempt: attemptCopy.saved(attempt), key: id.String(), task: id.Task}
		before, known := t.attempts.rows.get(row.key)
		if known {
			row.order = before.order
		} else {
			row.order = t.next()
		}
		t.attempts.rows.set(row.key, row)
		t.attempts.replace(before, row)
	}
	return nil
}

func (t attemptTable) OfTask(id task.ID) ([]taskqueue.Attempt, error) {
	var found []taskqueue.Attempt
	t.attempts.byTask.from(&attemptRow{task: id}, func(row *attemptRow) bool {
		if row.task != id {
			return false
		}
		found = append(found, attemptCopy.loaded(row.Attempt))
		return true
	})
	return found, nil
}

func (t attemptTable) RunningAt(pilot task.PilotID) ([]taskqueue.Attempt, error) {
	pivot := &attemptRow{}
	pivot.Outcome.Attempt.Pilot = pilot
	var found []taskqueue.Attempt
	t.attempts.running.from(pivot, func(row *attemptRow) bool {
		if row.pilot() != pilot {
			return false
		}
		found = append(found, attemptCopy.loaded(row.Attempt))
		return true
	})
	return found, nil
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
