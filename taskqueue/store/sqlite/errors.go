package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Primary result codes of SQLite (sqlite.org/rescode.html).
const (
	codeInput         = 10 // SQLITE_IOERR
	codeCorrupt       = 11
	codeFull          = 13
	codeNotADatabase  = 26
	codeUnique        = 2067 // SQLITE_CONSTRAINT_UNIQUE
	codePrimaryKey    = 1555 // SQLITE_CONSTRAINT_PRIMARYKEY
	codeRowID         = 2579 // SQLITE_CONSTRAINT_ROWID
	primaryCodeMask   = 0xff
	noSpaceLeftOnDisk = syscall.ENOSPC
)

// ErrDamaged tells that the database file cannot be read.
var ErrDamaged = errors.New("the queue's database is damaged")

// explain turns errors of SQLite into those that a caller decides on, and
// tells what to do.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, noSpaceLeftOnDisk) {
		return fmt.Errorf("%w: %s: free space on its file system, the queue then goes on: %w", taskqueue.ErrDiskFull, path, err)
	}
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return err
	}
	code := failure.Code() & primaryCodeMask
	if code == codeInput && noRoom(path) {
		code = codeFull // SQLite does not tell why it could not make its files
	}
	switch code {
	case codeFull:
		return fmt.Errorf("%w: %s: free space on its file system, the queue then goes on: %w", taskqueue.ErrDiskFull, path, err)
	case codeCorrupt, codeNotADatabase:
		return fmt.Errorf("%w: %s: stop the queue and restore the folder from a backup, or move the whole folder away to begin with a new VO: %w", ErrDamaged, path, err)
	}
	return fmt.Errorf("the queue's database %s: %w", path, err)
}

// noRoom tells whether the file system of a database has no space left for as
// much as SQLite's smallest file.
func noRoom(path string) bool {
	var system syscall.Statfs_t
	return syscall.Statfs(filepath.Dir(path), &system) == nil && system.Bavail*uint64(system.Bsize) < 64<<10
}

// isDuplicate tells whether a row was not inserted since its key is there.
func isDuplicate(err error) bool {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return false
	}
	code := failure.Code()
	return code == codeUnique || code == codePrimaryKey || code == codeRowID
}
