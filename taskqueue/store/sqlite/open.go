package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/pilotage-grid/pilotage/taskqueue"
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
// gets an error. A damaged database gives ErrDamaged.
func Open(folder string) (taskqueue.Store, error) {
	store, err := open(folder)
	if err != nil {
		return nil, fmt.Errorf("open the queue's folder %s: %w", folder, err)
	}
	return store, nil
}

func open(folder string) (*Store, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockFolder(folder)
	if err != nil {
		return nil, err
	}
	store, err := openLocked(filepath.Join(folder, FileName))
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	store.lock = lock
	return store, nil
}

// lockFolder holds the folder until the file is closed, also by the end of
// the process.
func lockFolder(folder string) (*os.File, error) {
	lock, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another queue runs on it: stop that one first, or use another folder")
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func openLocked(path string) (*Store, error) {
	if err := checkLog(path); err != nil {
		return nil, err
	}
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
		return nil, err
	}
	if err := prepareSchema(conn); err != nil {
		return nil, errors.Join(err, conn.close())
	}
	store := &Store{path: path, readers: make(chan *connection, idleReaders)}
	store.writer.conn, store.writer.patience = conn, batchTime
	return store, nil
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
	return fmt.Errorf("%w: %s is missing or empty, but its log %s-wal is there: put both back from a backup, or move the whole folder away to begin with a new VO", ErrDamaged, path, path)
}

// writeVersion notes the version of the schema.
var writeVersion = fmt.Sprintf("INSERT OR REPLACE INTO meta VALUES ('%s', x'%x');", schemaName, strconv.Itoa(schemaVersion))

// prepareSchema makes the tables of a new database, takes over those of earlier
// releases, and refuses those of a newer program.
func prepareSchema(conn *connection) error {
	tables, ours := int64(0), int64(0)
	err := conn.query("SELECT count(*), count(*) FILTER (WHERE name = 'meta') FROM sqlite_schema", func(row []driver.Value) error {
		tables, ours = row[0].(int64), row[1].(int64)
		return nil
	})
	if err != nil {
		return err
	}
	if tables > 0 && ours == 0 {
		return fmt.Errorf("%w: %s is a database, but not one of a queue: put the queue's own back from a backup, or use another folder", ErrDamaged, conn.path)
	}
	if tables == 0 {
		if err := conn.once("BEGIN IMMEDIATE;" + schema + runSchema + writeVersion + "COMMIT"); err != nil {
			return fmt.Errorf("make tables: %w", err)
		}
		return conn.once(additions)
	}
	var text []byte
	err = conn.query("SELECT value FROM meta WHERE name = '"+schemaName+"'", func(row []driver.Value) error {
		text, _ = row[0].([]byte)
		return nil
	})
	if err != nil {
		return err
	}
	version, err := strconv.Atoi(string(text))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s: its schema version is %q: restore the folder from a backup", ErrDamaged, conn.path, text)
	case version > schemaVersion:
		return fmt.Errorf("the queue's database %s was written by a newer pilotage (schema %d, this one knows %d): run that release or a later one", conn.path, version, schemaVersion)
	case version == 1:
		if err := conn.once("BEGIN IMMEDIATE;" + fromVersion1 + writeVersion + "COMMIT"); err != nil {
			return fmt.Errorf("bring the queue's database %s from schema 1 to %d: %w", conn.path, schemaVersion, err)
		}
	}
	return conn.once(additions)
}
