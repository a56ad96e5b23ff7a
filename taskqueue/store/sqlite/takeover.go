package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pilotage-grid/pilotage/internal/durable"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// backupName is the name of what a take-over leaves beside the database.
const backupName = "before-schema-4-"

// takeOver replaces a database of the release before by one of this one: it writes that
// beside it, keeps the old one under another name, and then puts the new one in its
// place. A kill before that leaves the old one as it was. It closes the engine.
//
// The release before could not give space back that it had deleted, and had no table of
// foreign copies.
func takeOver(old *engine) error {
	path, folder := old.path, filepath.Dir(old.path)
	fresh := path + ".new"
	for _, left := range []string{fresh, fresh + "-wal", fresh + "-shm"} {
		if err := os.Remove(left); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	err := emptyLog(old.writer)
	if err == nil {
		err = copyTo(fresh, old.writer)
	}
	if err := errors.Join(err, old.Close()); err != nil {
		return fmt.Errorf("take over the queue's database %s of the release before: %w", path, errors.Join(err, os.Remove(fresh)))
	}
	backup := filepath.Join(folder, backupName+time.Now().UTC().Format("20060102T150405.000000000")+".db")
	if err := errors.Join(os.Link(path, backup), os.Rename(fresh, path)); err != nil {
		return err
	}
	return durable.Sync(folder)
}

// emptyLog writes all of a log into its database.
func emptyLog(conn *connection) error {
	return conn.query("PRAGMA wal_checkpoint(TRUNCATE)", func(row []driver.Value) error {
		if busy, _ := row[0].(int64); busy != 0 {
			return errors.New("another program has it open: end that first")
		}
		return nil
	})
}

// copyTo writes what an old database has into a new one.
func copyTo(path string, old *connection) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	if _, err := old.exec("VACUUM INTO ?", path); err != nil {
		return err
	}
	e, err := openDatabase(path)
	if err != nil {
		return err
	}
	if _, err := e.writer.exec("UPDATE meta SET value = ? WHERE name = 'schema'", fmt.Append(nil, schemaVersion)); err != nil {
		return errors.Join(err, e.Close())
	}
	store, err := tables.Open(e, nil)
	if err != nil {
		return errors.Join(err, e.Close())
	}
	return errors.Join(saveFiles(store), store.Close(), durable.Sync(path)) // SQLite syncs no copy
}

// filesAtOnce is how many files are saved in one Update.
const filesAtOnce = 10_000

// saveFiles saves all files anew, with their entries in every index.
func saveFiles(store *tables.Store) error {
	for after, more := task.LFN(""), true; more; {
		err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
			files, err := tx.Files().List("", after, filesAtOnce)
			if more = len(files) == filesAtOnce; len(files) > 0 {
				after = files[len(files)-1].LFN
			}
			return errors.Join(err, tx.Files().Save(files...))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
