package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pilotage-grid/pilotage/taskqueue/auditlog"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// ErrDamaged tells that a queue's database is not what was written.
var ErrDamaged = sqlite.ErrDamaged

// ErrInUse tells that a queue runs on the folder.
var ErrInUse = sqlite.ErrInUse

// Verify reads the whole database in the folder of a queue that does not run, and
// says what is damaged. It returns how many blocks of rows it read.
func Verify(ctx context.Context, folder string) (blocks int, err error) {
	return sqlite.Verify(ctx, folder)
}

// Backup copies the database of a queue, which may run, and the closed parts of its audit
// log into another folder, and reads the database back; see sqlite.Backup.
func Backup(ctx context.Context, folder, into string) (blocks int, err error) {
	if blocks, err = sqlite.Backup(ctx, folder, into); err != nil {
		return blocks, err
	}
	// Parts that were closed meanwhile and are later than the copy are set aside by the
	// queue that starts on it, which has their records in the database.
	return blocks, auditlog.In(folder).CopyTo(into)
}

// Restore puts a backup in the place of a queue's database and audit log; see sqlite.Restore.
func Restore(ctx context.Context, from, folder string) (blocks int, before string, err error) {
	blocks, before, err = sqlite.Restore(ctx, from, folder)
	if err != nil {
		return blocks, before, err
	}
	if before != "" {
		err = os.Rename(filepath.Join(folder, auditlog.FolderName), filepath.Join(before, auditlog.FolderName))
	}
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = auditlog.In(from).CopyTo(folder)
	}
	return blocks, before, err
}

// errFounded refuses to found a VO where there was one: its pilots and people
// would be strangers to the new one, and its access files would be overwritten.
var errFounded = errors.New("the folder is that of a VO whose database is gone")

// checkFolder refuses a folder that shows a VO and holds no database; nothing
// is touched in it.
func (a *access) checkFolder() error {
	path := filepath.Join(a.config.DataDir, sqlite.FileName)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return a.mayFound("is missing")
	case err != nil:
		return err
	case info.Size() == 0:
		return a.mayFound("is empty")
	}
	return nil
}

// mayFound refuses to found a VO in a folder that shows one: the authority's
// certificate and access files are written after the database has both.
func (a *access) mayFound(database string) error {
	if a.config.Store != StoreSQLite {
		return nil // it forgets everything at its end
	}
	for _, kept := range []string{authorityFile, accessFolder} {
		kept = filepath.Join(a.config.DataDir, kept)
		if _, err := os.Stat(kept); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			return err
		}
		return fmt.Errorf("%w: %s %s, but %s is there: put %s back from a backup, or, to begin with a new VO, "+
			"move the whole folder away: pilots and access files of this VO do not open a new one",
			errFounded, filepath.Join(a.config.DataDir, sqlite.FileName), database, kept, sqlite.FileName)
	}
	return nil
}
