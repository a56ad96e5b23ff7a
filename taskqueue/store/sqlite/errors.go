package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// Primary result codes of SQLite (sqlite.org/rescode.html).
const (
	codeError         = 1
	codeInput         = 10 // SQLITE_IOERR
	codeCorrupt       = 11
	codeFull          = 13
	codeNotADatabase  = 26
	primaryCodeMask   = 0xff
	noSpaceLeftOnDisk = syscall.ENOSPC
)

// ErrDamaged tells that the database is not what was written.
var ErrDamaged = tables.ErrDamaged

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
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return fmt.Errorf("the queue's database %s: %w", path, err)
}

// whileOpening is explain for the statements by which a database is opened: SQLite finds
// a mistake in them only where the database has one.
func whileOpening(path string, err error) error {
	var failure *sqlite.Error
	if errors.As(err, &failure) && failure.Code()&primaryCodeMask == codeError {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return err
}

// noRoom tells whether the file system of a database has no space left for as
// much as SQLite's smallest file.
func noRoom(path string) bool {
	var system syscall.Statfs_t
	return syscall.Statfs(filepath.Dir(path), &system) == nil && system.Bavail*uint64(system.Bsize) < 64<<10
}
