package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// backupName is the name of what a take-over leaves beside the database.
const backupName = "before-schema-3-"

// takeOver replaces a database of the release before by one of this one: it writes that
// beside it, keeps the old one under another name, and then puts the new one in its
// place. A kill before that leaves the old one as it was. It closes the engine.
func takeOver(old *engine) error {
	path, folder := old.path, filepath.Dir(old.path)
	fresh := path + ".new"
	for _, left := range []string{fresh, fresh + "-wal", fresh + "-shm", path + witnessName} {
		if err := os.Remove(left); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	err := copyTo(fresh, old.writer)
	if err == nil {
		err = emptyLog(old.writer)
	}
	if err := errors.Join(err, old.Close()); err != nil {
		return fmt.Errorf("take over the queue's database %s of the release before: %w", path, errors.Join(err, os.Remove(fresh)))
	}
	backup := filepath.Join(folder, backupName+time.Now().UTC().Format("20060102T150405.000000000")+".db")
	if err := errors.Join(os.Link(path, backup), os.Rename(fresh, path)); err != nil {
		return err
	}
	opened, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
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
	e, err := openDatabase(path)
	if err != nil {
		return err
	}
	_, err = schemaOf(e.writer)
	if err != nil {
		return errors.Join(err, e.Close())
	}
	store, err := tables.Open(e, nil)
	if err != nil {
		return errors.Join(err, e.Close())
	}
	err = store.Update(context.Background(), func(tx taskqueue.Tx) error {
		for _, copyTable := range []func(*connection, taskqueue.Tx) error{copyMeta, copyRecords, copyTasks, copyFiles, copyLogs} {
			if err := copyTable(old, tx); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, store.Close())
}

func copyMeta(old *connection, tx taskqueue.Tx) error {
	err := old.query("SELECT name, value FROM meta WHERE name <> 'schema'", func(row []driver.Value) error {
		return tx.Meta().Set(row[0].(string), row[1].([]byte))
	})
	return errors.Join(err, old.query("SELECT name, used FROM counters", func(row []driver.Value) error {
		_, err := tx.Meta().Next(row[0].(string), uint64(row[1].(int64)))
		return err
	}))
}

// copyEach saves the records that a query finds.
func copyEach[R any](old *connection, query string, save func(...R) error) error {
	codec := record.New[R]()
	return old.query(query, func(row []driver.Value) error {
		var found R
		if err := codec.Decode(row[0].([]byte), &found); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, old.path, err)
		}
		return save(found)
	})
}

func copyRecords(old *connection, tx taskqueue.Tx) error {
	saveClass := func(classes ...taskqueue.Eligibility) error { return tx.Files().SaveClass(classes[0]) }
	return errors.Join(
		copyEach(old, "SELECT record FROM workflows ORDER BY number", tx.Workflows().Save),
		copyEach(old, "SELECT record FROM sites ORDER BY name", tx.Sites().Save),
		copyEach(old, "SELECT record FROM pilots ORDER BY number", tx.Pilots().Save),
		copyEach(old, "SELECT record FROM grants ORDER BY id", tx.Grants().Save),
		copyEach(old, "SELECT record FROM leases ORDER BY id", tx.Leases().Save),
		copyEach(old, "SELECT record FROM revocations ORDER BY site, lease, task", tx.Leases().Revoke),
		copyEach(old, "SELECT record FROM classes ORDER BY id", saveClass),
		copyEach(old, "SELECT record FROM files ORDER BY name", tx.Files().Save),
	)
}

// copyTasks joins the descriptions and states of tasks: both lie by the number in rows,
// and a row of states lies within one of descriptions.
func copyTasks(old *connection, tx taskqueue.Tx) error {
	taskCodec, stateCodec := record.New[task.Task](), record.New[taskqueue.TaskState]()
	return old.query("SELECT seq, number, records FROM descriptions ORDER BY seq", func(row []driver.Value) error {
		first, count := row[0].(int64), row[1].(int64)
		described, err := record.Unbind(row[2].([]byte), int(count))
		if err != nil {
			return err
		}
		tasks, states := make([]task.Task, count), make([]taskqueue.TaskState, 0, count)
		for i := range tasks {
			if err := taskCodec.Decode(described[i], &tasks[i]); err != nil {
				return err
			}
		}
		err = old.query("SELECT number, records, seq, state, priority, class, not_before, lease FROM runs WHERE seq >= ? AND seq < ? ORDER BY seq", func(row []driver.Value) error {
			found, err := record.Unbind(row[1].([]byte), int(row[0].(int64)))
			if err != nil {
				return err
			}
			for i := range found {
				var s taskqueue.TaskState
				if err := stateCodec.Decode(found[i], &s); err != nil {
					return err
				}
				s.Seq, s.State, s.Priority = uint64(row[2].(int64))+uint64(i), task.State(row[3].(int64)), int(row[4].(int64))
				s.Class, s.NotBefore, s.Lease = taskqueue.ClassID(row[5].(int64)), taskqueue.Instant(row[6].(int64)), task.LeaseID(row[7].(int64))
				states = append(states, s)
			}
			return nil
		}, first, first+count)
		if err != nil {
			return err
		}
		return tx.Tasks().Add(tasks, states)
	})
}

func copyFiles(old *connection, tx taskqueue.Tx) error {
	err := old.query("SELECT reader, file FROM uses ORDER BY reader", func(row []driver.Value) error {
		return tx.Files().AddUses(task.ID(row[0].(string)), task.LFN(row[1].(string)))
	})
	return errors.Join(err, old.query("SELECT site, url FROM garbage ORDER BY number", func(row []driver.Value) error {
		return tx.Files().AddGarbage(task.Replica{Site: task.Site(row[0].(string)), URL: row[1].(string)})
	}))
}

func copyLogs(old *connection, tx taskqueue.Tx) error {
	err := copyEach(old, "SELECT record FROM attempts ORDER BY number", tx.Attempts().Save)
	return errors.Join(err, old.query("SELECT task, suffix, stdout, stderr FROM logs ORDER BY number", func(row []driver.Value) error {
		id, _ := task.AttemptOf(task.ID(row[0].(string)), row[1].(string))
		stdout, _ := row[2].([]byte)
		stderr, _ := row[3].([]byte)
		return tx.Attempts().SaveLog(id, stdout, stderr)
	}))
}
