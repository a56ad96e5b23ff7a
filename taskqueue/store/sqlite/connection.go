package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"

	"modernc.org/sqlite"
)

// connection is one SQLite connection with its prepared statements. It is not
// safe for concurrent use. It works on the driver itself: database/sql would
// cost more than many of the statements.
type connection struct {
	raw        driver.Conn
	statements map[string]driver.Stmt
	arguments  []driver.NamedValue // reused
	path       string
}

var sqliteDriver = &sqlite.Driver{}

// connect opens a database and sets it up; cache is in KiB.
func connect(path string, cache int) (*connection, error) {
	// Without OmitHost the first folder of a relative path would be the host.
	raw, err := sqliteDriver.Open((&url.URL{Scheme: "file", OmitHost: true, Path: path}).String())
	if err != nil {
		return nil, explain(path, err)
	}
	c := &connection{raw: raw, statements: make(map[string]driver.Stmt), path: path}
	if err := errors.Join(c.once("PRAGMA busy_timeout = 10000"), c.vacuumByAndBy()); err != nil {
		return nil, errors.Join(err, c.close())
	}
	for _, pragma := range []string{
		"PRAGMA journal_mode = WAL",
		"PRAGMA synchronous = FULL",
		"PRAGMA foreign_keys = OFF",
		"PRAGMA temp_store = MEMORY",
		"PRAGMA wal_autocheckpoint = 4000",            // pages: 16 MiB of log per checkpoint
		"PRAGMA journal_size_limit = 67108864",        // bytes that the log keeps on disk
		fmt.Sprintf("PRAGMA cache_size = -%d", cache), // the bound on memory
	} {
		if err := c.once(pragma); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// vacuumByAndBy has a new database give space back: see giveBack. To say so of one that
// does already is a write, for which a full disk has no room.
func (c *connection) vacuumByAndBy() error {
	const incremental = 2
	var mode int64
	err := c.query("PRAGMA auto_vacuum", func(row []driver.Value) error {
		mode, _ = row[0].(int64)
		return nil
	})
	if err != nil || mode == incremental {
		return err
	}
	return c.once("PRAGMA auto_vacuum = INCREMENTAL")
}

func (c *connection) close() error {
	var errs []error
	for _, statement := range c.statements {
		errs = append(errs, statement.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// once runs SQL, also several statements, that is not worth keeping.
func (c *connection) once(sql string) error {
	statement, err := c.raw.Prepare(sql)
	if err != nil {
		return explain(c.path, err)
	}
	defer statement.Close()
	_, err = statement.(driver.StmtExecContext).ExecContext(context.Background(), nil)
	return explain(c.path, err)
}

func (c *connection) prepare(sql string, values []driver.Value) (driver.Stmt, []driver.NamedValue, error) {
	statement := c.statements[sql]
	if statement == nil {
		prepared, err := c.raw.Prepare(sql)
		if err != nil {
			return nil, nil, explain(c.path, fmt.Errorf("prepare %q: %w", sql, err))
		}
		statement, c.statements[sql] = prepared, prepared
	}
	c.arguments = c.arguments[:0]
	for i, value := range values {
		c.arguments = append(c.arguments, driver.NamedValue{Ordinal: i + 1, Value: value})
	}
	return statement, c.arguments, nil
}

// exec runs a statement and returns the number of rows that it changed.
func (c *connection) exec(sql string, values ...driver.Value) (int64, error) {
	statement, arguments, err := c.prepare(sql, values)
	if err != nil {
		return 0, err
	}
	result, err := statement.(driver.StmtExecContext).ExecContext(context.Background(), arguments)
	if err != nil {
		return 0, explain(c.path, err)
	}
	return result.RowsAffected()
}

// errStop ends a query early.
var errStop = errors.New("stop")

// query calls each with every row of the result until it returns errStop. The
// row is only valid during the call; what it points to stays valid.
func (c *connection) query(sql string, each func(row []driver.Value) error, values ...driver.Value) (err error) {
	statement, arguments, err := c.prepare(sql, values)
	if err != nil {
		return err
	}
	rows, err := statement.(driver.StmtQueryContext).QueryContext(context.Background(), arguments)
	if err != nil {
		return explain(c.path, err)
	}
	defer func() {
		if closing := rows.Close(); err == nil {
			err = explain(c.path, closing)
		}
	}()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		err := rows.Next(row)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return explain(c.path, err)
		}
		if err := each(row); errors.Is(err, errStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
