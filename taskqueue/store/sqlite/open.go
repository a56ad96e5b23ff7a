package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// FileName is the name of the database in the queue's folder.
const FileName = "queue.db"

// Page caches, in KiB: what bounds the memory of the store.
const (
	writerCache = 32 << 10
	readerCache = 4 << 10
)

// idleReaders is how many connections for Views are kept open.
const idleReaders = 4

// Open opens the queue in a folder. The folder is made, for its owner only,
// if it is not there, and is locked until Close, so that a second queue on it
// gets an error. A database of the release before is taken over, see takeOver. A
// damaged one gives ErrDamaged.
func Open(folder string) (taskqueue.Store, error) {
	store, _, err := open(folder, takeOver)
	if err != nil {
		return nil, fmt.Errorf("open the queue's folder %s: %w", folder, err)
	}
	return store, nil
}

// Verify reads the whole database of a queue that does not run and says what is
// damaged, in SQLite's own pages, too. It returns how many blocks of rows it read.
func Verify(ctx context.Context, folder string) (blocks int, err error) {
	if _, err := os.Stat(filepath.Join(folder, FileName)); err != nil {
		return 0, err
	}
	store, e, err := open(folder, func(e *engine) error {
		return errors.Join(fmt.Errorf("the queue's database %s is of the release before: start the queue, which takes it over", e.path), e.Close())
	})
	if err != nil {
		return 0, err
	}
	blocks, err = store.Verify(ctx)
	if err != nil {
		err = fmt.Errorf("%s: %w", e.path, err)
	}
	check := e.writer.query("PRAGMA integrity_check", func(row []driver.Value) error {
		if said, _ := row[0].(string); said != "ok" {
			return fmt.Errorf("%w: %s: SQLite: %s", ErrDamaged, e.path, said)
		}
		return nil
	})
	return blocks, errors.Join(err, check, store.Close())
}

// open opens a folder; older is given a database of the release before.
func open(folder string, older func(*engine) error) (*tables.Store, *engine, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, nil, err
	}
	lock, err := lockFolder(folder)
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(folder, FileName)
	e, err := openLocked(path, older)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	e.lock = lock
	store, err := tables.Open(e, e.witness)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), e.Close())
	}
	return store, e, nil
}

// ErrInUse tells that a queue runs on the folder.
var ErrInUse = errors.New("another queue runs on it: stop that one first, or use another folder")

// lockFolder holds the folder until the file is closed, also by the end of
// the process.
func lockFolder(folder string) (*os.File, error) {
	lock, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func openLocked(path string, older func(*engine) error) (*engine, error) {
	if err := checkLog(path); err != nil {
		return nil, err
	}
	e, err := openDatabase(path)
	if err != nil {
		return nil, err
	}
	version, err := schemaOf(e.writer)
	if err == nil && version == schemaBefore {
		if err := older(e); err != nil {
			return nil, err
		}
		e, err = openDatabase(path)
	}
	if err == nil {
		e.witness, err = openWitness(path)
	}
	if err != nil && e != nil {
		err = errors.Join(err, e.Close())
	}
	return e, err
}

// openDatabase opens a file as an engine, whatever its schema is.
func openDatabase(path string) (*engine, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite gives its other files the same mode
	if err != nil {
		return nil, explain(path, err)
	}
	if info, err := file.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 {
		_ = file.Chmod(0o600) // a copy that was put back; who may read it has the authority's key
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	conn, err := connect(path, writerCache)
	if err != nil {
		return nil, whileOpening(path, err)
	}
	return &engine{path: path, writer: conn, readers: make(chan *connection, idleReaders)}, nil
}

// checkLog refuses the log of a database that is missing or empty: SQLite would
// delete it, and what it holds may be all that is left.
func checkLog(path string) error {
	size := func(path string) (int64, error) {
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}
	database, err := size(path)
	if err != nil || database > 0 {
		return err
	}
	log, err := size(path + "-wal")
	if err != nil || log == 0 {
		return err
	}
	return fmt.Errorf("%w: %s is missing or empty, but its log %s-wal is there, or move the whole folder away to begin with a new VO", ErrDamaged, path, path)
}

// The schema of this program, and that of the release before. A program of before
// finds the number in meta, and says that the database is of a newer one.
const (
	schemaVersion = 4
	schemaBefore  = 3
)

var schema = fmt.Sprintf(`BEGIN IMMEDIATE;
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE blocks (number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, value BLOB NOT NULL);
INSERT INTO meta VALUES ('schema', x'%x');
COMMIT`, strconv.Itoa(schemaVersion))

// schemaOf makes the tables of a new database, and returns the version of the schema.
// It refuses versions that this program does not know.
func schemaOf(conn *connection) (version int, err error) {
	tables, ours := int64(0), int64(0)
	err = conn.query("SELECT count(*), count(*) FILTER (WHERE name = 'meta') FROM sqlite_schema", func(row []driver.Value) error {
		tables, ours = row[0].(int64), row[1].(int64)
		return nil
	})
	switch {
	case err != nil:
		return 0, whileOpening(conn.path, err)
	case tables > 0 && ours == 0:
		return 0, fmt.Errorf("%w: %s is a database, but not one of a queue", ErrDamaged, conn.path)
	case tables == 0:
		return schemaVersion, conn.once(schema)
	}
	var text []byte
	err = conn.query("SELECT value FROM meta WHERE name = 'schema'", func(row []driver.Value) error {
		text, _ = row[0].([]byte)
		return nil
	})
	if err != nil {
		return 0, err
	}
	version, err = strconv.Atoi(string(text))
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %s: its schema version is %q", ErrDamaged, conn.path, text)
	case version > schemaVersion:
		return 0, fmt.Errorf("the queue's database %s was written by a newer pilotage (schema %d, this one knows %d): run that release or a later one", conn.path, version, schemaVersion)
	case version < schemaBefore:
		return 0, fmt.Errorf("the queue's database %s was written by an old pilotage (schema %d): start a release in between once, which knows schema %d", conn.path, version, schemaBefore)
	}
	return version, nil
}
