package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Folders inside the work folder, named so that a payload's * skips them.
const (
	homeFolder      = ".home"
	temporaryFolder = ".tmp"
)

// makeWorkFolder makes an attempt's folder. It is always a new one: whatever
// somebody still holds of an earlier attempt's leads nowhere.
func makeWorkFolder(folder string) error {
	for _, path := range []string{folder, filepath.Join(folder, homeFolder), filepath.Join(folder, temporaryFolder)} {
		if err := os.Mkdir(path, 0o700); err != nil {
			return fmt.Errorf("make the work folder: %w", err)
		}
	}
	return nil
}

// ours is what work folders and log files are called: people may keep other
// things beside them.
const ours = "g[0-9]*-l[0-9]*-*-[0-9]*"

// removeLeftovers removes what a pilot that was killed has left in a folder.
func removeLeftovers(folder string) error {
	entries, err := os.ReadDir(folder)
	failures := []error{err}
	for _, entry := range entries {
		if matched, _ := filepath.Match(ours, entry.Name()); matched { // the pattern is a constant
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
