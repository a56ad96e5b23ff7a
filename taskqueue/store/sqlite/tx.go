package sqlite

import (
	"database/sql/driver"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// tx is one View, or one Update within a batch.
type tx struct {
	conn     *connection
	readOnly bool
	over     bool
	failed   error                       // first error: nothing more is done after it
	ready    map[taskqueue.ClassID]int64 // changes of ready_counts not written yet
	seqs     map[task.ID]int64           // of tasks that were read lately
	at       *run                        // that was read last, as it is in the database
}

func (t *tx) end() { t.over = true }

// finish writes what was put off and returns the first error of the Tx.
func (t *tx) finish() error {
	if t.failed != nil {
		return t.failed
	}
	return t.writeReadyCounts()
}

func (t *tx) fail(err error) error {
	if err != nil && t.failed == nil && !t.readOnly {
		t.failed = err
	}
	return err
}

func (t *tx) usable() error {
	if t.over {
		return taskqueue.ErrTxOver
	}
	return t.failed
}

func (t *tx) writing() error {
	if t.readOnly && !t.over {
		return taskqueue.ErrReadOnly
	}
	return t.usable()
}

// write runs a statement that changes something.
func (t *tx) write(sql string, values ...driver.Value) error {
	_, err := t.change(sql, values...)
	return err
}

// change is write that returns the number of rows.
func (t *tx) change(sql string, values ...driver.Value) (int64, error) {
	if err := t.writing(); err != nil {
		return 0, err
	}
	changed, err := t.conn.exec(sql, values...)
	return changed, t.fail(err)
}

// read calls each with every row.
func (t *tx) read(sql string, each func(row []driver.Value) error, values ...driver.Value) error {
	if err := t.usable(); err != nil {
		return err
	}
	return t.fail(t.conn.query(sql, each, values...))
}

// integer reads one number, 0 if there is no row or it is NULL.
func (t *tx) integer(sql string, values ...driver.Value) (number int64, err error) {
	err = t.read(sql, func(row []driver.Value) error {
		number, _ = row[0].(int64)
		return nil
	}, values...)
	return number, err
}

// text reads one text, "" if there is no row.
func (t *tx) text(sql string, values ...driver.Value) (text string, err error) {
	err = t.read(sql, func(row []driver.Value) error {
		text = row[0].(string)
		return nil
	}, values...)
	return text, err
}

func (t *tx) Meta() taskqueue.MetaTable          { return metaTable{t} }
func (t *tx) Workflows() taskqueue.WorkflowTable { return workflowTable{t} }
func (t *tx) Tasks() taskqueue.TaskTable         { return taskTable{t} }
func (t *tx) Files() taskqueue.FileTable         { return fileTable{t} }
func (t *tx) Attempts() taskqueue.AttemptTable   { return attemptTable{t} }
func (t *tx) Leases() taskqueue.LeaseTable       { return leaseTable{t} }
func (t *tx) Sites() taskqueue.SiteTable         { return siteTable{t} }
func (t *tx) Pilots() taskqueue.PilotTable       { return pilotTable{t} }
func (t *tx) Grants() taskqueue.GrantTable       { return grantTable{t} }
