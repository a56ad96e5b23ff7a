package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// privateFolder is HOME and TMPDIR of a payload, inside its work folder, named so
// that a payload's * skips it.
const privateFolder = ".private"

// workFolders makes the folders of attempts, WORKDIR/BATCH/ATTEMPT. A folder is
// always a new one: whatever somebody still holds of an earlier attempt's leads
// nowhere. It is safe for use by many goroutines.
//
// Batches are for ext4, which does not use the number of a removed file again for
// a minute, and looks at each such number when it makes a file beside where that
// was: with hundreds of short payloads a second, making a folder took ten times as
// long. Each batch lies elsewhere on the disk (see spread).
type workFolders struct {
	within string   // WorkDir
	owner  *Account // nil: the pilot's

	mutex   sync.Mutex
	batch   string // the one in which folders are made
	batches int
	made    int            // folders in it
	held    map[string]int // folders that are not removed, by batch
}

// perBatch is how many folders a batch has: few enough that what was removed
// costs little, enough that the making of batches does.
const perBatch = 64

func newWorkFolders(within string, owner *Account) *workFolders {
	spread(within)
	return &workFolders{within: within, owner: owner, held: map[string]int{}}
}

// spread asks the file system to put the folders in a folder far from each other,
// as those of unrelated things. Most file systems have no such wish; that is no
// error.
func spread(folder string) {
	file, err := os.Open(folder)
	if err != nil {
		return
	}
	defer file.Close()
	const topOfHierarchies = 0x20000 // FS_TOPDIR_FL, of chattr +T
	flags, err := unix.IoctlGetUint32(int(file.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		_ = unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, int(flags|topOfHierarchies))
	}
}

// reserve says where the folder of an attempt is to be.
func (f *workFolders) reserve(attempt string) (string, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.batch == "" || f.made == perBatch {
		batch := filepath.Join(f.within, batchName+strconv.Itoa(f.batches+1))
		err := os.MkdirAll(f.within, 0o711) // somebody may have cleaned up
		if err == nil {
			err = os.Mkdir(batch, 0o711) // an own account of payloads passes through, and does not list
		}
		if err != nil {
			return "", fmt.Errorf("make a folder for work folders: %w", err)
		}
		old := f.batch
		f.batch, f.made = batch, 0
		f.batches++
		f.tidy(old)
	}
	f.made++
	f.held[f.batch]++
	return filepath.Join(f.batch, attempt), nil
}

// make makes a reserved folder, and its batch again if somebody has cleaned up since.
func (f *workFolders) make(folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o711); err != nil {
		return fmt.Errorf("make a folder for work folders: %w", err)
	}
	for _, path := range []string{folder, filepath.Join(folder, privateFolder)} {
		err := os.Mkdir(path, 0o700)
		if err == nil && f.owner != nil {
			err = os.Lchown(path, f.owner.UID, f.owner.GID)
		}
		if err != nil {
			return fmt.Errorf("make the work folder: %w", err)
		}
	}
	return nil
}

// remove removes a reserved folder, which may not have been made.
func (f *workFolders) remove(folder string) error {
	if err := removeWorkFolder(folder); err != nil {
		return err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	batch := filepath.Dir(folder)
	f.held[batch]--
	f.tidy(batch)
	return nil
}

// tidy removes a batch that is done with.
func (f *workFolders) tidy(batch string) {
	if f.held[batch] == 0 && batch != f.batch {
		delete(f.held, batch)
		_ = os.Remove(batch) // fails only where somebody keeps other things there
	}
}

// close removes the last batch, if all its folders are.
func (f *workFolders) close() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	last := f.batch
	f.batch = ""
	f.tidy(last)
}

const batchName = "batch-"

// ours are what batches, work folders and log files are called: people may keep
// other things beside them.
var ours = [...]string{"g[0-9]*-l[0-9]*-*-[0-9]*", batchName + "[0-9]*"}

// removeLeftovers removes what a pilot that was killed has left in a folder.
func removeLeftovers(folder string) error {
	entries, err := os.ReadDir(folder)
	failures := []error{err}
	for _, entry := range entries {
		if isOurs(entry.Name()) {
			failures = append(failures, RemoveTree(filepath.Join(folder, entry.Name())))
		}
	}
	return errors.Join(failures...)
}

func isOurs(name string) bool {
	return slices.ContainsFunc(ours[:], func(pattern string) bool {
		matched, _ := filepath.Match(pattern, name) // the patterns are constants
		return matched
	})
}

// removeWorkFolder removes an attempt's folder: with two calls where the payload
// has left nothing, as most short ones do.
func removeWorkFolder(folder string) error {
	if err := syscall.Rmdir(filepath.Join(folder, privateFolder)); err == nil && syscall.Rmdir(folder) == nil {
		return nil
	}
	return RemoveTree(folder)
}

// RemoveTree removes a folder even where a payload made sub-folders that
// cannot be entered.
func RemoveTree(folder string) error {
	err := os.RemoveAll(folder)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	walk := func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			return os.Chmod(path, 0o700) // called before the folder is read
		}
		return nil
	}
	if err := filepath.WalkDir(folder, walk); err != nil { // never follows links
		return err
	}
	return os.RemoveAll(folder)
}
