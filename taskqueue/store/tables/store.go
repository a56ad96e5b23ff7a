package tables

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Store is a taskqueue.Store over an Engine.
type Store struct{ engine Engine }

// New returns the store that an engine keeps.
func New(engine Engine) *Store { return &Store{engine} }

// View calls read with what was committed last.
func (s *Store) View(ctx context.Context, read func(taskqueue.Tx) error) error {
	return s.engine.View(ctx, func(rows Rows) error {
		tx := &tx{rows: rows, readOnly: true}
		defer tx.end()
		return read(tx)
	})
}

// Update calls write and returns once what it wrote is durable.
func (s *Store) Update(ctx context.Context, write func(taskqueue.Tx) error) error {
	return s.engine.Update(ctx, func(rows Rows) error {
		tx := &tx{rows: rows}
		defer tx.end()
		if err := write(tx); err != nil {
			return err
		}
		return tx.finish()
	})
}

// Close waits for what runs.
func (s *Store) Close() error { return s.engine.Close() }

// tx is one View or Update.
type tx struct {
	rows     Rows
	readOnly bool
	over     bool
	failed   error                       // first error: nothing more is done after it
	ready    map[taskqueue.ClassID]int64 // changes of the counts of READY tasks that are not written yet
	seqs     map[task.ID]uint64          // of tasks that were read lately
	at       *run                        // that was read last, as it is in the table
	total    total                       // by how much the sum of all rows has changed
	pending  [tablesEnd]map[string]pending
}

func (t *tx) end() { t.over = true }

// finish writes what was put off and returns the first error of the Tx.
func (t *tx) finish() error {
	if t.failed != nil {
		return t.failed
	}
	if err := t.writeReadyCounts(); err != nil {
		return err
	}
	for table := range tablesEnd {
		if err := t.flush(table); err != nil {
			return err
		}
	}
	return t.writeTotal()
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

// get returns the values of keys, nil for absent ones.
func (t *tx) get(table Table, keys ...[]byte) ([][]byte, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	waiting := t.pending[table]
	values := make([][]byte, len(keys))
	var asked [][]byte
	var places []int
	for i, key := range keys {
		if e, ok := waiting[string(key)]; ok {
			values[i] = e.after
		} else {
			asked, places = append(asked, key), append(places, i)
		}
	}
	found, err := t.read(table, asked)
	for i, value := range found {
		values[places[i]] = value
		if !t.readOnly {
			t.note(table, pending{edit: edit{asked[i], value, value}}) // what is read is mostly written next
		}
	}
	if err == nil {
		err = t.flushLarge(table)
	}
	return values, err
}

// read is get of what is in the table.
func (t *tx) read(table Table, keys [][]byte) ([][]byte, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	values, err := t.rows.Get(table, keys...)
	for i := range values {
		if values[i] != nil && err == nil {
			values[i], err = open(table, keys[i], values[i])
		}
	}
	return values, t.fail(err)
}

func (t *tx) getOne(table Table, key []byte) ([]byte, error) {
	values, err := t.get(table, key)
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// scan calls each with the rows of a span until it returns false.
func (t *tx) scan(table Table, span Span, each func(Row) (bool, error)) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := t.flush(table); err != nil {
		return err
	}
	return t.fail(t.rows.Scan(table, span, func(row Row) (more bool, err error) {
		if row.Value, err = open(table, row.Key, row.Value); err != nil {
			return false, err
		}
		return each(row)
	}))
}

// edit is a change of one row: its value before and after; nil is no row.
type edit struct{ key, before, after []byte }

// pending is an edit that is not written yet.
type pending struct {
	edit
	blind bool // the caller does not know what was there before
}

// mostPending bounds the edits of a table that a Tx keeps in memory.
const mostPending = 1 << 13

// edit changes rows of a table, in order. They are kept until the end of the Tx or
// a scan of the table: many rows are written with one statement.
func (t *tx) edit(table Table, edits ...edit) error {
	if err := t.writing(); err != nil || len(edits) == 0 {
		return err
	}
	for _, e := range edits {
		t.note(table, pending{edit: e})
	}
	return t.flushLarge(table)
}

// note keeps an edit in mind; what the table has is known from the first one.
func (t *tx) note(table Table, e pending) {
	if t.pending[table] == nil {
		t.pending[table] = make(map[string]pending)
	}
	if earlier, ok := t.pending[table][string(e.key)]; ok {
		e.before, e.blind = earlier.before, earlier.blind
	}
	t.pending[table][string(e.key)] = e
}

func (t *tx) flushLarge(table Table) error {
	if len(t.pending[table]) > mostPending {
		return t.flush(table)
	}
	return nil
}

// flush writes the edits of a table, by key.
func (t *tx) flush(table Table) error {
	if len(t.pending[table]) == 0 {
		return nil
	}
	edits := slices.Collect(maps.Values(t.pending[table]))
	clear(t.pending[table])
	edits = slices.DeleteFunc(edits, func(e pending) bool {
		return !e.blind && (e.before == nil) == (e.after == nil) && bytes.Equal(e.before, e.after)
	})
	slices.SortFunc(edits, func(a, b pending) int { return bytes.Compare(a.key, b.key) })
	if err := t.learnBefore(table, edits); err != nil {
		return err
	}
	var put []Row
	var drop [][]byte
	for _, e := range edits {
		if (e.before == nil) == (e.after == nil) && bytes.Equal(e.before, e.after) {
			continue
		}
		if e.before != nil {
			t.total.remove(seal(table, e.key, e.before))
		}
		switch {
		case e.after != nil:
			sum := seal(table, e.key, e.after)
			t.total.add(sum)
			put = append(put, Row{e.key, binary.BigEndian.AppendUint32(slices.Clip(e.after), sum)})
		case e.before != nil:
			drop = append(drop, e.key)
		}
	}
	if len(drop) > 0 {
		if err := t.rows.Delete(table, drop...); err != nil {
			return t.fail(err)
		}
	}
	if len(put) > 0 {
		return t.fail(t.rows.Put(table, put...))
	}
	return nil
}

// learnBefore reads the values before that callers did not know.
func (t *tx) learnBefore(table Table, edits []pending) error {
	var keys [][]byte
	var places []int
	for i, e := range edits {
		if e.blind {
			keys, places = append(keys, e.key), append(places, i)
		}
	}
	found, err := t.read(table, keys)
	for i, value := range found {
		edits[places[i]].before = value
	}
	return err
}

// clear deletes the rows of a span.
func (t *tx) clear(table Table, span Span) error {
	var gone []edit
	err := t.scan(table, span, func(row Row) (bool, error) {
		gone = append(gone, edit{row.Key, row.Value, nil})
		return true, nil
	})
	if err != nil {
		return err
	}
	return t.edit(table, gone...)
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
