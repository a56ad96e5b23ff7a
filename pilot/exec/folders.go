package exec

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// Folders inside the work folder, named so that a payload's * skips them.
const (
	homeFolder      = ".home"
	temporaryFolder = ".tmp"
)

// spareName begins the names of emptied work folders.
const spareName = ".spare-"

// spareFolders keeps emptied work folders for later attempts: making and
// removing folders costs more than all else around a short payload on file
// systems with a journal, renaming costs little. It is safe for use by many
// goroutines.
type spareFolders struct {
	within string // WorkDir
	mutex  sync.Mutex
	spare  []string
	number int
	closed bool
}

// mostSpare bounds the empty folders kept.
const mostSpare = 64

// take makes a work folder of that name.
func (f *spareFolders) take(folder string) error {
	f.mutex.Lock()
	var spare string
	if last := len(f.spare) - 1; last >= 0 {
		spare, f.spare = f.spare[last], f.spare[:last]
	}
	f.mutex.Unlock()
	if spare != "" {
		if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) && os.Rename(spare, folder) == nil {
			return nil
		}
		_ = removeTree(spare)
	}
	for _, path := range []string{folder, filepath.Join(folder, homeFolder), filepath.Join(folder, temporaryFolder)} {
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// give empties a work folder and keeps it, or removes it where the payload
// changed the folders themselves. A folder that is gone is no error.
func (f *spareFolders) give(folder string) error {
	f.mutex.Lock()
	full := len(f.spare) >= mostSpare
	f.number++
	spare := filepath.Join(f.within, spareName+strconv.Itoa(f.number))
	f.mutex.Unlock()
	if full || !emptied(folder) || os.Rename(folder, spare) != nil {
		return removeTree(folder)
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.closed {
		return removeTree(spare)
	}
	f.spare = append(f.spare, spare)
	return nil
}

// close removes the spare folders; what is given later is removed at once.
func (f *spareFolders) close() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.closed = true
	var failures []error
	for _, folder := range f.spare {
		failures = append(failures, removeTree(folder))
	}
	f.spare = nil
	return errors.Join(failures...)
}

// emptied removes what a payload left and tells whether the folder is as new.
func emptied(folder string) bool {
	kept := 0
	entries, ok := untouched(folder)
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		if name := entry.Name(); name == homeFolder || name == temporaryFolder {
			inside, asMade := untouched(path)
			for _, entry := range inside {
				ok = ok && os.RemoveAll(filepath.Join(path, entry.Name())) == nil
			}
			ok = ok && asMade
			kept++
			continue
		}
		ok = ok && os.RemoveAll(path) == nil
	}
	return ok && kept == 2
}

// untouched lists a folder and tells whether it is one with the mode it was
// made with.
func untouched(folder string) ([]fs.DirEntry, bool) {
	info, err := os.Lstat(folder)
	if err != nil || info.Mode() != fs.ModeDir|0o700 {
		return nil, false
	}
	entries, err := os.ReadDir(folder)
	return entries, err == nil
}

// ours are the names of work folders, of log files and of spare folders:
// people may keep other things beside them.
var ours = []string{"g[0-9]*-l[0-9]*-*-[0-9]*", spareName + "*"}

// removeLeftovers removes what a pilot that was killed has left in a folder.
func removeLeftovers(folder string) error {
	entries, err := os.ReadDir(folder)
	failures := []error{err}
	for _, entry := range entries {
		isOurs := func(pattern string) bool {
			matched, _ := filepath.Match(pattern, entry.Name()) // the patterns are constants
			return matched
		}
		if slices.ContainsFunc(ours, isOurs) {
			failures = append(failures, removeTree(filepath.Join(folder, entry.Name())))
		}
	}
	return errors.Join(failures...)
}

// removeTree removes a folder even where a payload made sub-folders that
// cannot be entered.
func removeTree(folder string) error {
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
