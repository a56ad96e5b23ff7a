// Package durable writes files that a power cut leaves whole: as they were, or as they
// are to be. It has no goroutines.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// unfinished is the pattern of the names of files that are being written.
const unfinished = ".new-*"

// Tidy removes what a process that was killed has left of files, anywhere below a folder.
// Nobody may be writing there.
func Tidy(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if left, _ := filepath.Match(unfinished, entry.Name()); left && entry.Type().IsRegular() {
			return os.Remove(path)
		}
		return nil
	})
}

// WriteFile puts a file in its place when all of it is on the disk. Its folder is there.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	folder := filepath.Dir(path)
	file, err := os.CreateTemp(folder, unfinished) // made with mode 0600
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return Sync(folder)
}

// Sync brings to the disk what a file holds, or which files a folder has.
func Sync(path string) error {
	opened, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
