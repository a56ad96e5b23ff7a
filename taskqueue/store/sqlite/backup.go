package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/pilotage-grid/pilotage/internal/durable"
)

// Backup writes a copy of a queue's database into a folder, for its owner only, as it
// is at one moment, also while the queue runs, and reads it back. It returns how many
// blocks of rows that has. A folder that has a database is refused.
func Backup(ctx context.Context, folder, into string) (blocks int, err error) {
	path, target := filepath.Join(folder, FileName), filepath.Join(into, FileName)
	if _, err := os.Stat(path); err != nil {
		return 0, err
	}
	if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("%s: %w: give another folder", target, cmp.Or(err, os.ErrExist))
	}
	if err := os.MkdirAll(into, 0o700); err != nil {
		return 0, err
	}
	conn, err := connect(path, readerCache)
	if err != nil {
		return 0, err
	}
	part := target + ".part"
	err = os.Remove(part)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = os.WriteFile(part, nil, 0o600) // SQLite makes one that others may read
	}
	if err == nil {
		_, err = conn.exec("VACUUM INTO ?", part)
	}
	if err = errors.Join(err, conn.close()); err != nil {
		return 0, fmt.Errorf("copy %s: %w", path, errors.Join(err, os.Remove(part)))
	}
	if err := errors.Join(durable.Sync(part), os.Rename(part, target), durable.Sync(into)); err != nil {
		return 0, err
	}
	return Verify(ctx, into)
}

// Restore puts the backup in a folder in the place of a queue's database, after it has
// read all of it. What was there is moved into the folder that it returns, "" if there
// was nothing. A kill leaves the old database, the new one, or none, which no queue
// starts on; then Restore is called again.
func Restore(ctx context.Context, from, folder string) (blocks int, before string, err error) {
	if blocks, err = Verify(ctx, from); err != nil {
		return 0, "", err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return 0, "", err
	}
	lock, err := lockFolder(folder)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	path := filepath.Join(folder, FileName)
	part := path + ".restored"
	if err := copyFile(filepath.Join(from, FileName), part); err != nil {
		return 0, "", err
	}
	for _, name := range []string{"", "-wal", "-shm", witnessName} {
		if _, err := os.Lstat(path + name); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if before == "" {
			before = filepath.Join(folder, "before-restore-"+time.Now().UTC().Format("20060102T150405.000000000"))
			if err := os.Mkdir(before, 0o700); err != nil {
				return 0, "", err
			}
		}
		if err := os.Rename(path+name, filepath.Join(before, FileName+name)); err != nil {
			return 0, before, err
		}
	}
	return blocks, before, errors.Join(os.Rename(part, path), durable.Sync(folder))
}

func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Sync(), target.Close())
}
