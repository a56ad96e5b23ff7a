package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"os"

	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// engine keeps the queue's ordered map in an SQLite database.
type engine struct {
	path    string
	lock    *os.File // nil: somebody else holds the folder
	witness witness
	writer  *connection
	readers chan *connection // idle ones
	commits int              // since space was last given back
}

// Begin satisfies tables.Engine.
func (e *engine) Begin(write bool) (tables.Transaction, error) {
	if write {
		if err := e.giveBack(); err != nil {
			return nil, err
		}
		_, err := e.writer.exec("BEGIN IMMEDIATE")
		return writing{reading{e, e.writer}}, err
	}
	conn, err := e.reader()
	if err != nil {
		return nil, err
	}
	t := reading{e, conn}
	if _, err := conn.exec("BEGIN"); err != nil {
		t.Rollback()
		return nil, err
	}
	return t, nil
}

// Space that is free in the database is given back to the disk when it is more than an
// eighth of the file, some pages at a time, so that no commit waits long: what is
// deleted is mostly needed again soon.
const (
	lookEvery     = 16 // commits
	givenBack     = 512
	leastGiveBack = 4 * givenBack
)

// giveBack shortens the file by pages that are free.
func (e *engine) giveBack() error {
	if e.commits++; e.commits < lookEvery {
		return nil
	}
	e.commits = 0
	var free, pages int64
	for pragma, into := range map[string]*int64{"PRAGMA freelist_count": &free, "PRAGMA page_count": &pages} {
		if err := e.writer.query(pragma, func(row []driver.Value) error {
			*into, _ = row[0].(int64)
			return nil
		}); err != nil {
			return err
		}
	}
	if free < leastGiveBack || free < pages/8 {
		return nil
	}
	return e.writer.query(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", givenBack), func([]driver.Value) error { return nil })
}

func (e *engine) reader() (*connection, error) {
	select {
	case conn := <-e.readers:
		return conn, nil
	default:
		return connect(e.path, readerCache)
	}
}

// Close writes the log back into the database and unlocks the folder.
func (e *engine) Close() error {
	close(e.readers)
	var errs []error
	for conn := range e.readers {
		errs = append(errs, conn.close())
	}
	errs = append(errs, e.writer.close(), e.witness.close())
	if e.lock != nil {
		errs = append(errs, e.lock.Close())
	}
	return errors.Join(errs...)
}

// reading is a transaction that only reads.
type reading struct {
	engine *engine
	conn   *connection
}

// lastKey is beyond all keys: no table has the number 255.
var lastKey = []byte{255}

func (t reading) Scan(span tables.Span, each func(tables.Row) (bool, error)) error {
	sql := "SELECT key, value FROM blocks WHERE key >= ? AND key < ? ORDER BY key"
	if span.Down {
		sql = "SELECT key, value FROM blocks WHERE key >= ? AND key < ? ORDER BY key DESC"
	}
	from, before := span.From, span.Before
	if from == nil {
		from = []byte{}
	}
	if before == nil {
		before = lastKey
	}
	return t.conn.query(sql, func(row []driver.Value) error {
		more, err := each(tables.Row{Key: row[0].([]byte), Value: row[1].([]byte)})
		if err == nil && !more {
			return errStop
		}
		return err
	}, from, before)
}

var errReading = errors.New("the transaction only reads")

func (reading) Put(...tables.Row) error { return errReading }
func (reading) Delete(...[]byte) error  { return errReading }
func (reading) Commit() error           { return errReading }

// Rollback keeps the connection if there is room. One that cannot end its
// transaction is of no more use.
func (t reading) Rollback() {
	if _, err := t.conn.exec("ROLLBACK"); err == nil {
		select {
		case t.engine.readers <- t.conn:
			return
		default:
		}
	}
	_ = t.conn.close() // nothing was written through it
}

// writing is a transaction of the one connection that writes.
type writing struct{ reading }

func (t writing) Put(rows ...tables.Row) error {
	for _, row := range rows {
		_, err := t.conn.exec("INSERT INTO blocks (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", row.Key, row.Value)
		if err != nil {
			return err
		}
	}
	return nil
}

func (t writing) Delete(keys ...[]byte) error {
	for _, key := range keys {
		if _, err := t.conn.exec("DELETE FROM blocks WHERE key = ?", key); err != nil {
			return err
		}
	}
	return nil
}

func (t writing) Commit() error {
	_, err := t.conn.exec("COMMIT")
	return err
}

func (t writing) Rollback() { _, _ = t.conn.exec("ROLLBACK") } // fails if SQLite did it by itself
