package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/internal/durable"
	"github.com/pilotage-grid/pilotage/task"
)

// errUnstable tells that a file changed while it was hashed.
var errUnstable = errors.New("it changed while it was being read: some process still writes to it")

// sealed is a file that is read-only, hashed, and known not to have changed
// meanwhile.
type sealed struct {
	content
	info os.FileInfo
}

// seal makes an open file read-only, gives it a time in the past so that any
// later change shows, and hashes it.
func seal(ctx context.Context, file *os.File, exec, withAdler bool) (sealed, error) {
	if info, err := file.Stat(); err != nil {
		return sealed{}, err
	} else if status, ok := info.Sys().(*syscall.Stat_t); ok && int(status.Uid) != os.Geteuid() {
		// What another account has made is to be the cache's alone.
		if err := file.Chown(os.Geteuid(), os.Getegid()); err != nil {
			return sealed{}, err
		}
	}
	if err := file.Chmod(modeOf(exec)); err != nil {
		return sealed{}, err
	}
	past := unix.NsecToTimeval(time.Now().Add(-backdate).UnixNano())
	if err := unix.Futimes(int(file.Fd()), []unix.Timeval{past, past}); err != nil {
		return sealed{}, fmt.Errorf("set time: %w", err)
	}
	before, err := file.Stat()
	if err != nil {
		return sealed{}, err
	}
	got, err := digestContent(ctx, file, task.Bytes(before.Size()), withAdler)
	if err != nil {
		return sealed{}, err
	}
	after, err := file.Stat()
	if err != nil {
		return sealed{}, err
	}
	if after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return sealed{}, errUnstable
	}
	return sealed{content: got, info: after}, nil
}

func modeOf(exec bool) os.FileMode {
	if exec {
		return 0o555
	}
	return 0o444
}

// placing says how a sealed file gets in.
type placing struct {
	sealed      sealed
	reservation task.FileKey // "" when the bytes were not reserved before
	name        task.FileKey // "lfn:" key to add, or ""
	exec        bool
	outputs     []task.OutputID // that no storage element has
	pin         bool
}

func (p *placing) sole() bool { return len(p.outputs) > 0 }

// place moves a sealed file from a path into the cache. If its content is
// there already and known to be whole, that file takes over name and
// attributes, and the one at the path is removed. Otherwise the new file takes
// its place. On an error the file stays at the path.
func (c *Cache) place(path string, how placing) (Entry, *Pinned, error) {
	f := &stored{
		Entry: Entry{
			Key: task.KeyOf("", how.sealed.digest), Size: how.sealed.manifest.Size, Digest: how.sealed.digest,
			Manifest: how.sealed.manifest, Exec: how.exec, Outputs: how.outputs,
		},
		modified: how.sealed.info.ModTime().UnixNano(), boot: c.boot, synced: how.sole(), seen: time.Now(),
		reading: make(chan struct{}, 1),
	}
	if how.name != "" {
		f.Names = []task.FileKey{how.name}
	}
	meta, err := c.tempPath()
	defer func() { _ = removeIfThere(meta) }() // gone after success; else Open empties the folder
	folder := filepath.Dir(c.contentPath(f.Digest))
	if err == nil {
		err = writeMetadata(meta, f.metadata(c.self()))
	}
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return Entry{}, nil, c.diskFull(err, f.Size)
	}

	c.enter()
	present, err := c.placeLocked(path, meta, f, how)
	var entry Entry
	var pinned *Pinned
	if err == nil {
		entry = present.snapshot()
		if how.pin {
			pinned = c.pinLocked(present)
		}
	}
	c.leave()
	if err != nil {
		return Entry{}, nil, c.diskFull(err, f.Size)
	}
	if present != f {
		if err := removeIfThere(path); err != nil {
			c.log.Warn("cannot remove a second copy of a cached file", "path", path, "error", err)
		}
	} else if f.synced {
		if err := durable.Sync(folder); err != nil {
			c.log.Warn("cannot flush a cache folder: its newest file may not survive a power cut", "path", folder, "error", err)
		}
	}
	return entry, pinned, nil
}

// placeLocked returns the file that now stands for the content.
func (c *Cache) placeLocked(path, meta string, f *stored, how placing) (*stored, error) {
	if c.closed {
		return nil, fmt.Errorf("cache %w", ErrClosed)
	}
	var replaced []task.FileKey // lost only if nothing takes their place
	if present := c.files[f.Key]; present != nil {
		if c.damage(present) == nil && c.fresh(present) {
			c.index.Cancel(how.reservation)
			c.merge(present, f)
			return present, nil
		}
		if err := f.inherit(present, path, meta, c.self()); err != nil {
			return nil, err
		}
		before := len(c.lost.keys)
		c.drop(present)
		replaced, c.lost.keys = slices.Clone(c.lost.keys[before:]), c.lost.keys[:before]
	}
	var err error
	if how.reservation != "" {
		err = c.index.Commit(how.reservation, f.Key, f.Size, f.Sole())
	} else {
		var evicted []task.FileKey
		evicted, err = c.index.Insert(f.Key, f.Size, f.Sole())
		c.forget(evicted)
	}
	if err == nil {
		if err = c.moveIn(path, meta, f, how.sealed.info); err != nil {
			err = errors.Join(err, c.index.Remove(f.Key))
		}
	}
	if err != nil {
		c.lost.keys = append(c.lost.keys, replaced...)
		return nil, err
	}
	c.list(f)
	return f, nil
}

// inherit gives a file at a path what the file has been known as whose place it
// takes: that one may have rotted, what it stands for is wanted all the same.
func (f *stored) inherit(present *stored, path, meta string, self int) error {
	for _, name := range present.Names {
		if !slices.Contains(f.Names, name) {
			f.Names = append(f.Names, name)
		}
	}
	for _, output := range present.Outputs {
		if !slices.Contains(f.Outputs, output) {
			f.Outputs = append(slices.Clone(f.Outputs), output)
		}
	}
	f.Others, f.keepers = present.Others, present.keepers
	if present.Exec && !f.Exec {
		if err := os.Chmod(path, modeOf(true)); err != nil {
			return err
		}
		f.Exec = true
	}
	if f.Sole() && !f.synced {
		if err := durable.Sync(path); err != nil {
			return err
		}
		f.synced = true
	}
	return writeMetadata(meta, f.metadata(self))
}

// moveIn renames content first and metadata second: content without metadata
// is removed by recovery, metadata without content cannot occur.
func (c *Cache) moveIn(path, meta string, f *stored, info os.FileInfo) error {
	target := c.contentPath(f.Digest)
	c.note(fileChanged, f.Digest)
	if err := c.system.rename(path, target); err != nil {
		return err
	}
	moved, err := os.Lstat(target)
	if err == nil && (!os.SameFile(moved, info) || f.changed(moved) != "") {
		err = errUnstable
	}
	if err == nil {
		err = c.system.rename(meta, target+metaSuffix)
	}
	if err != nil {
		return errors.Join(err, os.Rename(target, path))
	}
	return nil
}

// merge gives a present file what another of the same content would bring.
// Executable is the wider of two modes. It stays for the outputs of both: the
// copy that a storage element has may belong to another attempt and be deleted
// with it.
func (c *Cache) merge(present, other *stored) {
	changed := false
	for _, name := range other.Names {
		if !slices.Contains(present.Names, name) {
			present.Names = append(slices.Clone(present.Names), name)
			c.names[name] = present.Key
			changed = true
		}
	}
	if other.Exec && !present.Exec {
		if err := os.Chmod(c.contentPath(present.Digest), modeOf(true)); err != nil {
			c.log.Warn("cannot make a cached file executable", "file", present.Key, "error", err)
		} else {
			present.Exec, changed = true, true
		}
	}
	if c.keep(present, other.Outputs...) || changed {
		c.rewriteMetadata(present)
	}
}
