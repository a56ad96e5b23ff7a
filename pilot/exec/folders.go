package exec

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
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

// RemoveTree removes a folder, or a file, even where a payload made sub-folders that
// cannot be entered, or so many below each other that no path leads to them. It empties
// each folder within the top one in turn, and moves up what is not empty there: so it
// needs two descriptors, however deep they lie.
func RemoveTree(folder string) error {
	if err := os.Remove(folder); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_ = os.Chmod(folder, 0o700) // that which the payload has closed
	top, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer top.Close()
	for {
		left, err := eachEntry(top, func(name string) error { return removeWithin(top, name) })
		if err != nil {
			return err
		}
		if left == 0 {
			return os.Remove(folder)
		}
	}
}

// removeWithin removes an entry of the top folder.
func removeWithin(top *os.Root, name string) error {
	if removed(top, name) {
		return nil
	}
	within, err := top.OpenRoot(name)
	if err != nil {
		return err
	}
	defer within.Close()
	for {
		left, err := eachEntry(within, func(below string) error {
			if removed(within, below) {
				return nil
			}
			return top.Rename(name+"/"+below, rand.Text())
		})
		if err != nil {
			return err
		}
		if left == 0 {
			return top.Remove(name)
		}
	}
}

// removed tells whether an entry has gone. A folder that has not is opened: to move
// it is to write to it, too.
func removed(folder *os.Root, name string) bool {
	if err := folder.Remove(name); err == nil || errors.Is(err, fs.ErrNotExist) {
		return true
	}
	_ = folder.Chmod(name, 0o700)
	return false
}

// eachEntry does something to some entries of a folder, and tells how many they were.
func eachEntry(folder *os.Root, do func(name string) error) (int, error) {
	file, err := folder.Open(".")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	names, err := file.Readdirnames(1024)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	for _, name := range names {
		if err := do(name); err != nil {
			return 0, err
		}
	}
	return len(names), nil
}
