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
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/pilot/exec/spawner"
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
	// container is the folder of its root file system; "" is the node's root.
	container string
	inputs    []placed
	bound     []spawner.BoundInput // of them, those that are shown in place of a file
	gpus      []string             // its own while it runs
	group     *cgroup              // nil where payloads have none
	// streams are stdout and stderr, once they are open.
	streams []*stream
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
	var err error
	if a.container, err = a.runner.containerOf(&a.spec.Task); err != nil {
		return err
	}
	if err := a.runner.folders.make(a.folder); err != nil {
		return err
	}
	a.inputs = make([]placed, 0, len(a.spec.Inputs))
	for _, input := range a.spec.Inputs {
		if err := a.place(input); err != nil {
			return err
		}
	}
	return a.handOver()
}

// handOver gives the inputs to the account of payloads. A file with another name is
// the cache's.
func (a *attempt) handOver() error {
	account := a.runner.cfg.PayloadUser
	if account == nil || len(a.inputs) == 0 {
		return nil
	}
	err := filepath.WalkDir(a.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if status, ok := info.Sys().(*syscall.Stat_t); ok && !entry.IsDir() && status.Nlink > 1 {
			return nil
		}
		return os.Lchown(path, account.UID, account.GID)
	})
	if err != nil {
		return fmt.Errorf("give the work folder to the account of payloads: %w", err)
	}
	return nil
}

// place gives the payload an input: a copy of its own, so that nothing that it
// does to it reaches the cached file and whoever reads that next. Where the file
// system can, the copy shares the blocks.
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
	if a.runner.cfg.TrustPayloads && cached.mode&mode == mode && cached.mode&0o222 == 0 {
		err = os.Link(input.Path, place)
		if err == nil {
			a.inputs = append(a.inputs, placed{input, cached, cached.fileID})
			return nil
		}
		if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EMLINK) {
			return fmt.Errorf("place input %s: %w", input.Name, err)
		}
	}
	err = a.bindInput(input, cached, place, mode)
	if errors.Is(err, errCopy) {
		err = a.copyInput(input.Path, place, mode)
	}
	if err != nil {
		return fmt.Errorf("place input %s: %w", input.Name, err)
	}
	copied, err := takeFingerprint(place)
	if err != nil {
		return fmt.Errorf("place input %s: %w", input.Name, err)
	}
	a.inputs = append(a.inputs, placed{input, cached, copied.fileID})
	return nil
}

// errCopy tells that an input is to be copied.
var errCopy = errors.New("it is copied")

// bindInput has a large file shown in the work folder, read-only, where it is not
// shared block by block. An output of the same name needs a file of its own.
func (a *attempt) bindInput(input StagedInput, cached fingerprint, place string, mode fs.FileMode) error {
	isOutput := slices.ContainsFunc(a.spec.Task.Outputs, func(o task.Output) bool { return o.Name == input.Name })
	if a.runner.level < Namespaces || cached.size <= reflinkFrom || cached.mode&mode != mode || isOutput || a.runner.reflinks(a.folder, input.Path) {
		return errCopy
	}
	a.bound = append(a.bound, spawner.BoundInput{Cached: input.Path, Place: input.Name})
	return os.WriteFile(place, nil, 0o400)
}

// reflinkFrom is the size from which blocks are shared where the file system
// can: below it, copying is faster.
const reflinkFrom = int64(task.MiB)

// copyInput copies a cached file; the target must not exist. Its disk is taken
// beforehand. It ends with the attempt.
func (a *attempt) copyInput(from, to string, mode fs.FileMode) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	size := info.Size()
	if size > reflinkFrom {
		if clone(target, source) {
			return target.Chmod(mode)
		}
		err := unix.Fallocate(int(target.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			return fmt.Errorf("no room for a copy of %s: %w", task.Bytes(size), err)
		}
	}
	for left := size; left > 0; {
		if a.ctx.Err() != nil {
			return context.Cause(a.ctx)
		}
		n, err := io.CopyN(target, source, min(left, copyStep))
		if left -= n; err != nil {
			return err
		}
	}
	return target.Chmod(mode)
}

func clone(target, source *os.File) bool {
	return unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) == nil
}

// reflinks tells whether the file systems of cache and work folders share blocks:
// it tries once.
func (r *Runner) reflinks(folder, cached string) bool {
	r.reflinkOnce.Do(func() {
		source, err := os.Open(cached)
		if err != nil {
			return
		}
		defer source.Close()
		target, err := os.CreateTemp(folder, ".reflink-")
		if err != nil {
			return
		}
		r.reflink = clone(target, source)
		_ = os.Remove(target.Name())
		_ = target.Close()
	})
	return r.reflink
}

// copyStep is what is copied between two looks at the attempt's end.
const copyStep = 8 << 20

// modifiedInputs names the inputs whose cached file is not what it was, where
// payloads are trusted with links. A changed mode alone (chmod +x of a script) is
// put back and is no change.
func (a *attempt) modifiedInputs() []string {
	var names []string
	if !a.runner.cfg.TrustPayloads {
		return nil
	}
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
