package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// incoming holds unfinished files of Put. The tilde is not allowed in
	// names, so nobody can read them or collide with them.
	incoming = "~incoming"
	// abandonedAfter is the age at which an unfinished file has no writer left.
	abandonedAfter = 24 * time.Hour
)

// folder is a file:// element. It opens its folder anew for each call, so that
// a file system may be mounted again below it, and goes through os.Root, so
// that neither names nor links lead out of it.
type folder struct{ dir string }

func (f *folder) url(name string) string { return FileURL(path.Join(f.dir, name)) }

// fail names operation and file, and finds the kind.
func (f *folder) fail(op, name string, err error) error {
	failed := &Error{Op: op, URL: f.url(name), Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		failed.Kind, failed.Err = ErrNotFound, nil
	case errors.Is(err, fs.ErrPermission):
		failed.Kind, failed.Advice = ErrRefused, "let the pilot's account access it"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		failed.Kind, failed.Advice = ErrFull, "free space on its file system"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		failed.Kind, failed.Advice = ErrRefused, "a file and a folder of the same name exclude each other"
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ESTALE):
		failed.Kind, failed.Temporary, failed.Advice = ErrUnreachable, true, "check its file system"
	}
	return failed
}

// open is where a call begins that goes on while ctx lasts.
func (f *folder) open(ctx context.Context, op, name string) (*os.Root, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(f.dir)
	if err == nil {
		return root, nil
	}
	return nil, &Error{
		Op: op, URL: f.url(name), Kind: ErrUnreachable, Temporary: true, Err: err,
		Advice: "make the folder of the storage element, or mount its file system, on this machine",
	}
}

// Get opens a file of the folder.
func (f *folder) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	if err := validateName(name); err != nil {
		return nil, 0, err
	}
	return f.get(ctx, name, offset)
}

func (f *folder) get(ctx context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	if offset < 0 {
		return nil, 0, &Error{Op: "get", URL: f.url(name), Kind: ErrOffset}
	}
	root, err := f.open(ctx, "get", name)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	// O_NONBLOCK: opening a named pipe must not wait for its writer.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, f.fail("get", name, err)
	}
	info, err := file.Stat()
	if err == nil {
		err = f.usable(name, info)
	}
	if err == nil && offset > info.Size() {
		err = &Error{Op: "get", URL: f.url(name), Kind: ErrOffset, Err: fmt.Errorf("%d of %d bytes", offset, info.Size())}
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	remaining := info.Size() - offset
	return &bounded{
		reader: io.NewSectionReader(file, offset, remaining), closer: file.Close, left: remaining, known: true,
		fail: func(err error) error { return f.fail("get", name, err) },
		stop: func() error { return ended(ctx) },
	}, info.Size(), nil
}

// usable tells a file from what else may have its name.
func (f *folder) usable(name string, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return &Error{Op: "get", URL: f.url(name), Kind: ErrNotFound, Err: errors.New("it is a folder")}
	default:
		return &Error{Op: "get", URL: f.url(name), Kind: ErrRefused, Err: fmt.Errorf("it is not a regular file but %s", info.Mode().Type())}
	}
}

// Head looks a file up.
func (f *folder) Head(ctx context.Context, name string) (Info, error) {
	if err := validateName(name); err != nil {
		return Info{}, err
	}
	root, err := f.open(ctx, "head", name)
	if err != nil {
		return Info{}, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return Info{}, f.fail("head", name, err)
	}
	if err := f.usable(name, info); err != nil {
		return Info{}, err
	}
	return Info{URL: f.url(name), Size: info.Size(), Modified: info.ModTime()}, nil
}

// Delete removes a file, and leaves its folder for others that may be writing
// there.
func (f *folder) Delete(ctx context.Context, name string) error {
	if err := validateName(name); err != nil {
		return err
	}
	root, err := f.open(ctx, "delete", name)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = root.Remove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return f.fail("delete", name, err)
	}
	return nil
}

// Put writes to a place without a name, flushes, and renames.
func (f *folder) Put(ctx context.Context, name string, size int64, content io.ReadSeeker) (string, error) {
	if err := validateName(name); err != nil {
		return "", err
	}
	start, err := checkSize(content, size)
	if err != nil {
		return "", &Error{Op: "put", URL: f.url(name), Kind: ErrSize, Err: err}
	}
	root, err := f.open(ctx, "put", name)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if _, err := content.Seek(start, io.SeekStart); err != nil {
		return "", f.fail("put", name, err)
	}
	if err := f.write(ctx, root, name, size, content); err != nil {
		if reason := ended(ctx); reason != nil {
			return "", reason
		}
		var failed *Error
		if errors.As(err, &failed) {
			return "", err
		}
		if errors.Is(err, fs.ErrNotExist) { // the folder vanished meanwhile
			return "", &Error{Op: "put", URL: f.url(name), Kind: ErrUnreachable, Temporary: true, Err: err}
		}
		return "", f.fail("put", name, err)
	}
	return f.url(name), nil
}

// Outputs are no matter of everybody who has an account: the group of the folder
// (set-gid) and its default ACL say who else may read.
const (
	folderMode = 0o750
	fileMode   = 0o640
)

func (f *folder) write(ctx context.Context, root *os.Root, name string, size int64, content io.Reader) (err error) {
	if err := root.MkdirAll(incoming, folderMode); err != nil {
		return err
	}
	f.removeAbandoned(root)
	if parent := path.Dir(name); parent != "." {
		if err := root.MkdirAll(parent, folderMode); err != nil {
			return err
		}
	}
	temporary := path.Join(incoming, rand.Text())
	file, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Remove(temporary))
		}
	}()
	written, err := io.Copy(file, untilEnded{ctx, io.LimitReader(content, size+1)})
	if err == nil && written != size {
		err = &Error{Op: "put", URL: f.url(name), Kind: ErrSize, Err: fmt.Errorf("%d bytes came, %d were announced", written, size)}
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := root.Rename(temporary, name); err != nil {
		return err
	}
	parent, err := root.Open(path.Dir(name))
	if err != nil {
		return nil // the file is in place; only its folder cannot be flushed
	}
	defer parent.Close()
	if err := parent.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // not every file system can
		return f.fail("put", name, err)
	}
	return nil
}

// removeAbandoned clears what killed writers left. Failing is of no
// consequence for the file at hand.
func (f *folder) removeAbandoned(root *os.Root) {
	entries, err := os.ReadDir(filepath.Join(f.dir, incoming))
	if err != nil {
		return
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > abandonedAfter {
			_ = root.Remove(path.Join(incoming, entry.Name()))
		}
	}
}

// checkSize returns the position of content after checking that as many bytes
// follow as announced.
func checkSize(content io.Seeker, size int64) (start int64, err error) {
	if start, err = content.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	end, err := content.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	if end-start != size {
		return 0, fmt.Errorf("%d bytes follow, %d were announced", end-start, size)
	}
	_, err = content.Seek(start, io.SeekStart)
	return start, err
}

// Mounted tells why the folder of a file:// element says nothing about the files
// that it has not: where its file system is not mounted there are none.
func Mounted(element string, mayBeEmpty bool) error {
	at, err := url.Parse(element)
	if err != nil || at.Scheme != "file" {
		return nil
	}
	entries, err := os.ReadDir(at.Path)
	if err == nil && len(entries) == 0 && !mayBeEmpty {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fmt.Errorf("the folder of the storage element, %s, is not there: mount its file system on this machine (%w)", at.Path, err)
	}
	return nil
}
