package tables

import (
	"cmp"
	"math"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type attemptTable struct{ *tx }

func attemptKey(id task.AttemptID) key { return text(id.Task).text(id.Suffix()) }

var attemptKind = kind[taskqueue.Attempt]{
	table: attempts, codec: record.New[taskqueue.Attempt](), counter: "attempt rows",
	key: func(a *taskqueue.Attempt) key { return attemptKey(a.Outcome.Attempt) },
	indexes: []index[taskqueue.Attempt]{
		{attemptsRunning, func(n uint64, a *taskqueue.Attempt) key {
			if a.State != taskqueue.AttemptRunning {
				return nil
			}
			return text(a.Outcome.Attempt.Pilot).number(n)
		}},
	},
}

func (t attemptTable) Load(ids ...task.AttemptID) ([]taskqueue.Attempt, error) {
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = attemptKey(id)
	}
	return attemptKind.load(t.tx, keys...)
}

func (t attemptTable) Save(attempts ...taskqueue.Attempt) error {
	for _, a := range attempts {
		a.Outcome.Stdout, a.Outcome.Stderr = nil, nil // have their own table
		if err := attemptKind.saveOne(t.tx, &a); err != nil {
			return err
		}
	}
	return t.writing()
}

func (t attemptTable) OfTask(id task.ID) ([]taskqueue.Attempt, error) {
	found, err := attemptKind.scan(t.tx, under(text(id)), math.MaxInt)
	slices.SortFunc(found, func(a, b stored[taskqueue.Attempt]) int { return cmp.Compare(a.number, b.number) })
	return bare(found, err)
}

func (t attemptTable) RunningAt(pilot task.PilotID) ([]taskqueue.Attempt, error) {
	return attemptKind.by(t.tx, attemptsRunning, under(text(pilot)), math.MaxInt)
}

// log is the end of an attempt's output.
type log struct{ Stdout, Stderr []byte }

var logCodec = record.New[log]()

func (t attemptTable) SaveLog(id task.AttemptID, stdout, stderr []byte) error {
	if err := t.writing(); err != nil {
		return err
	}
	before, err := t.getOne(logs, attemptKey(id))
	if err != nil {
		return err
	}
	return t.edit(logs, edit{attemptKey(id), before, logCodec.Encode(&log{stdout, stderr})})
}

func (t attemptTable) LoadLog(id task.AttemptID) (stdout, stderr []byte, err error) {
	value, err := t.getOne(logs, attemptKey(id))
	if err != nil || value == nil {
		return nil, nil, err
	}
	var found log
	if err := logCodec.Decode(value, &found); err != nil {
		return nil, nil, t.damaged(logs, err)
	}
	return found.Stdout, found.Stderr, nil
}
