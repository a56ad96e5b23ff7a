package sqlite

import (
	"database/sql/driver"

	"github.com/pilotage-grid/pilotage/task"
)

// mostRemembered bounds how many tasks' numbers a Tx keeps in memory.
const mostRemembered = 1 << 15

// seqOf returns a task's Seq, by which its rows are found.
func (t *tx) seqOf(id task.ID) (seq int64, known bool, err error) {
	if err := t.usable(); err != nil {
		return 0, false, err
	}
	if seq, known = t.seqs[id]; known {
		return seq, true, nil
	}
	err = t.read("SELECT seq FROM names WHERE id = ?", func(row []driver.Value) error {
		seq, known = row[0].(int64), true
		return nil
	}, string(id))
	return seq, known, err
}

// remember keeps the number of a task that was read: what is read is mostly
// described and saved next.
func (t *tx) remember(id task.ID, seq int64) {
	if t.seqs == nil || len(t.seqs) == mostRemembered {
		t.seqs = make(map[task.ID]int64)
	}
	t.seqs[id] = seq
}
