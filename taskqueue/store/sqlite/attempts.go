package sqlite

import (
	"database/sql/driver"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type attemptTable struct{ *tx }

func (t attemptTable) Load(ids ...task.AttemptID) (found []taskqueue.Attempt, err error) {
	for _, id := range ids {
		found, err = appendRecords(found, t.tx, attemptCodec, "SELECT record FROM attempts WHERE task = ? AND suffix = ?", string(id.Task), id.Suffix())
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (t attemptTable) Save(attempts ...taskqueue.Attempt) error {
	for _, a := range attempts {
		o := &a.Outcome
		o.Stdout, o.Stderr = nil, nil // have their own table
		err := t.write(`INSERT INTO attempts (task, suffix, pilot, state, record) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (task, suffix) DO UPDATE SET state = excluded.state, record = excluded.record`,
			string(o.Attempt.Task), o.Attempt.Suffix(), string(o.Attempt.Pilot), int64(a.State), attemptCodec.Encode(&a))
		if err != nil {
			return err
		}
	}
	return t.writing()
}

func (t attemptTable) OfTask(id task.ID) ([]taskqueue.Attempt, error) {
	return records(t.tx, attemptCodec, "SELECT record FROM attempts WHERE task = ? ORDER BY number", string(id))
}

func (t attemptTable) RunningAt(pilot task.PilotID) ([]taskqueue.Attempt, error) {
	return records(t.tx, attemptCodec, `SELECT record FROM attempts INDEXED BY attempts_running
		WHERE state = 1 AND pilot = ? ORDER BY number`, string(pilot))
}

func (t attemptTable) SaveLog(id task.AttemptID, stdout, stderr []byte) error {
	return t.write(`INSERT INTO logs (task, suffix, stdout, stderr) VALUES (?, ?, ?, ?)
		ON CONFLICT (task, suffix) DO UPDATE SET stdout = excluded.stdout, stderr = excluded.stderr`,
		string(id.Task), id.Suffix(), stdout, stderr)
}

func (t attemptTable) LoadLog(id task.AttemptID) (stdout, stderr []byte, err error) {
	err = t.read("SELECT stdout, stderr FROM logs WHERE task = ? AND suffix = ?", func(row []driver.Value) error {
		stdout, _ = row[0].([]byte)
		stderr, _ = row[1].([]byte)
		return nil
	}, string(id.Task), id.Suffix())
	return stdout, stderr, err
}
