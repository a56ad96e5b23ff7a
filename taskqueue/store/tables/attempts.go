package tables

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type attemptTable struct {
	records[task.AttemptID, taskqueue.Attempt]
}

func attemptKey(id task.AttemptID) key { return text(id.Task).text(id.Suffix()) }

var attemptKind = kind[task.AttemptID, taskqueue.Attempt]{
	table: attempts, codec: record.New[taskqueue.Attempt](), counter: "attempt rows",
	id: func(a *taskqueue.Attempt) task.AttemptID { return a.Outcome.Attempt }, key: attemptKey,
	indexes: []index[taskqueue.Attempt]{
		{attemptsRunning, func(n uint64, a *taskqueue.Attempt) []key {
			if a.State != taskqueue.AttemptRunning {
				return nil
			}
			return []key{text(a.Outcome.Attempt.Pilot).number(n)}
		}},
	},
}

func (t attemptTable) Save(attempts ...taskqueue.Attempt) error {
	for _, a := range attempts {
		a.Outcome.Stdout, a.Outcome.Stderr = nil, nil // have their own table
		if err := t.records.Save(a); err != nil {
			return err
		}
	}
	return t.writing()
}

func (t attemptTable) OfTask(id task.ID) (found []taskqueue.Attempt, err error) {
	var all []stored[taskqueue.Attempt]
	err = t.tx.scan(attempts, under(text(id)), func(row Row) (bool, error) {
		one, err := attemptKind.decode(t.tx, row)
		all = append(all, one)
		return true, err
	})
	slices.SortFunc(all, func(a, b stored[taskqueue.Attempt]) int { return cmp.Compare(a.number, b.number) })
	for i := range all {
		found = append(found, all[i].record)
	}
	return found, err
}

func (t attemptTable) RunningAt(pilot task.PilotID) ([]taskqueue.Attempt, error) {
	return t.by(attemptsRunning, under(text(pilot)), noLimit)
}

// log is the end of an attempt's output.
type log struct {
	ID             task.AttemptID
	Stdout, Stderr []byte
}

var logKind = kind[task.AttemptID, log]{
	table: logs, codec: record.New[log](), id: func(l *log) task.AttemptID { return l.ID }, key: attemptKey,
}

func (t attemptTable) SaveLog(id task.AttemptID, stdout, stderr []byte) error {
	return records[task.AttemptID, log]{t.tx, &logKind}.Save(log{id, stdout, stderr})
}

func (t attemptTable) LoadLog(id task.AttemptID) (stdout, stderr []byte, err error) {
	found, err := records[task.AttemptID, log]{t.tx, &logKind}.Load(id)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	return found[0].Stdout, found[0].Stderr, nil
}
