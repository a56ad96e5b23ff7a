package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

// attempt is one Run call: used by its goroutine only.
type attempt struct {
	runner *Runner
	ctx    context.Context
	spec   Spec
	name   string // of the work folder and of the log files
	folder string
	log    *slog.Logger
	inputs []placed
	gpus   []string // its own while it runs
	// streams are stdout and stderr, once they are open.
	streams []*stream
	// haunted is set when a process could not be killed: it may still write
	// into the work folder, which then serves no other attempt.
	haunted bool
}

// placed is an input in the work folder, and how its cached file looked then.
type placed struct {
	StagedInput
	cached fingerprint
	node   fileID // of the file in the work folder
}

// fileID identifies a file whatever its names are.
type fileID struct{ device, inode uint64 }

// fingerprint is what shows a change of a file without reading it.
type fingerprint struct {
	fileID
	size  int64
	mtime unix.Timespec
	mode  fs.FileMode
}

func takeFingerprint(path string) (fingerprint, error) {
	var status unix.Stat_t
	if err := unix.Lstat(path, &status); err != nil {
		return fingerprint{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if status.Mode&unix.S_IFMT != unix.S_IFREG {
		return fingerprint{}, fmt.Errorf("%s is not a regular file", path)
	}
	return fingerprint{
		fileID: fileID{status.Dev, status.Ino}, size: status.Size, mtime: status.Mtim,
		mode: fs.FileMode(status.Mode & 0o777),
	}, nil
}

// stage makes the work folder and places the inputs in it.
func (a *attempt) stage() error {
	if err := a.runner.folders.take(a.folder); err != nil {
		return fmt.Errorf("make the work folder: %w", err)
	}
	a.inputs = make([]placed, 0, len(a.spec.Inputs))
	for _, input := range a.spec.Inputs {
		if err := a.place(input); err != nil {
			return err
		}
	}
	return nil
}

func (a *attempt) place(input StagedInput) error {
	if err := task.ValidateLFN(input.Name); err != nil {
		return payloadErrorf("input: %v", err)
	}
	cached, err := takeFingerprint(input.Path)
	if err != nil {
		return fmt.Errorf("cached input %s: %w", input.Name, err)
	}
	place := filepath.Join(a.folder, input.Name)
	if filepath.Dir(input.Name) != "." {
		if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
			return payloadErrorf("make the folder of input %s: %v", input.Name, err)
		}
	}
	mode := fs.FileMode(0o444)
	if input.Exec {
		mode = 0o555
	}
	// A link shares mode and content with the cache: only for files that are
	// read-only and executable enough as they are.
	if cached.mode&mode == mode && cached.mode&0o222 == 0 {
		err = os.Link(input.Path, place)
		if err == nil {
			a.inputs = append(a.inputs, placed{input, cached, cached.fileID})
			return nil
		}
		if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EMLINK) {
			return fmt.Errorf("place input %s: %w", input.Name, err)
		}
	}
	if err := copyFile(input.Path, place, mode); err != nil {
		return fmt.Errorf("place input %s: %w", input.Name, err)
	}
	copied, err := takeFingerprint(place)
	if err != nil {
		return fmt.Errorf("place input %s: %w", input.Name, err)
	}
	a.inputs = append(a.inputs, placed{input, cached, copied.fileID})
	return nil
}

// copyFile copies by the kernel, which shares the blocks where the file
// system can. The target must not exist.
func copyFile(from, to string, mode fs.FileMode) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if _, err := io.Copy(target, source); err != nil {
		return err
	}
	return target.Chmod(mode)
}

// modifiedInputs names the inputs whose cached file is not what it was. A
// changed mode alone (chmod +x of a script) is put back and is no change.
func (a *attempt) modifiedInputs() []string {
	var names []string
	for _, input := range a.inputs {
		now, err := takeFingerprint(input.Path)
		if err == nil && now.mode != input.cached.mode {
			now.mode = input.cached.mode
			err = os.Chmod(input.Path, now.mode)
		}
		if err != nil || now != input.cached {
			names = append(names, input.Name)
		}
	}
	return names
}
