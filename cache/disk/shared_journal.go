package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// A line of the journal has a length that no page boundary cuts: it is written whole or
// not at all. It is a kind and a digest.
const (
	journalFile = "journal"
	lineSize    = 64
	maxJournal  = 32 << 20
	fileChanged = 'c'
	fileUsed    = 'u'
)

// note tells the others of a file, before it is changed. A journal that cannot be
// written, as on a full disk, or that has become long, goes: then all read the folder.
func (c *Cache) note(what byte, digest task.Digest) {
	s := c.shared
	if s == nil {
		return
	}
	line := make([]byte, lineSize)
	line[0] = what
	copy(line[1:], digest[:])
	if s.read < maxJournal {
		if _, err := s.journal.WriteAt(line, s.read); err == nil {
			s.read += lineSize
			return
		}
	}
	c.noteAll()
}

// noteAll has all read the folder anew.
func (c *Cache) noteAll() {
	if c.shared == nil {
		return
	}
	if err := removeIfThere(filepath.Join(c.dir, journalFile)); err != nil {
		c.log.Warn("pilots that share a cache folder cannot be told of changes", "folder", c.dir, "error", err)
	}
}

// reopenJournal goes to the end of the journal.
func (s *sharing) reopenJournal() error {
	journal, err := os.OpenFile(filepath.Join(s.dir, journalFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := journal.Stat()
	if err != nil {
		return errors.Join(err, journal.Close())
	}
	if s.journal != nil {
		_ = s.journal.Close()
	}
	s.journal, s.read = journal, info.Size()/lineSize*lineSize
	return nil
}

// catchUp takes in what the others have changed.
func (c *Cache) catchUp() {
	s := c.shared
	lines, err := s.news()
	if err != nil {
		if err := s.reopenJournal(); err != nil { // on a full disk, say
			c.log.Debug("pilots that share a cache folder read all of it each time", "folder", c.dir, "error", err)
		}
		c.lookAll()
		return
	}
	s.read += int64(len(lines))
	changed := map[task.Digest]bool{}
	for line := range slices.Chunk(lines, lineSize) {
		digest := task.Digest(line[1 : 1+len(task.Digest{})])
		if line[0] == fileUsed {
			c.index.Used(task.KeyOf("", digest))
		} else {
			changed[digest] = true
		}
	}
	for digest := range changed {
		c.look(digest)
	}
}

// news are the lines of the journal that are new; there is an error if it is another.
func (s *sharing) news() ([]byte, error) {
	now, err := os.Stat(filepath.Join(s.dir, journalFile))
	if err != nil {
		return nil, err
	}
	if own, err := s.journal.Stat(); err != nil || !os.SameFile(now, own) {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	lines := make([]byte, max(0, now.Size()-s.read)/lineSize*lineSize)
	if len(lines) > 0 {
		_, err = s.journal.ReadAt(lines, s.read)
	}
	return lines, err
}

// lookAll looks at every file in memory or on the disk.
func (c *Cache) lookAll() {
	paths, err := filepath.Glob(filepath.Join(c.dir, "??", "*"+metaSuffix))
	if err != nil {
		panic(err) // of the pattern
	}
	all := map[task.Digest]bool{}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), metaSuffix)
		if digest, known := task.FileKey("b3:" + name).Digest(); known {
			all[digest] = true
		}
	}
	for _, f := range c.files {
		all[f.Digest] = true
	}
	for digest := range all {
		c.look(digest)
	}
}

// look takes in how a file is on the disk by now. Half a file is what somebody has
// left who was killed.
func (c *Cache) look(digest task.Digest) {
	s, key, path := c.shared, task.KeyOf("", digest), c.contentPath(digest)
	f := c.files[key]
	now, _, err := readStored(c.dir, path, s.self)
	switch trouble := (*fs.PathError)(nil); {
	case errors.As(err, &trouble) && !errors.Is(err, fs.ErrNotExist):
		c.log.Warn("a cached file cannot be looked at", "path", path, "error", err) // for want of file descriptors, say
		c.noteAll()
		return
	case err != nil:
		if err := errors.Join(removeIfThere(path+metaSuffix), removeIfThere(path)); err != nil {
			c.log.Warn("half a cached file cannot be removed", "path", path, "error", err)
		}
		if f != nil {
			agree(c.log, key, c.index.Remove(key))
			c.lost.keys = append(c.lost.keys, c.unlist(f)...)
		}
		return
	case f != nil && f.modified == now.modified && f.Size == now.Size:
		f.Names, f.Exec, f.Outputs, f.Others, f.keepers = now.Names, now.Exec, now.Outputs, now.Others, now.keepers
		f.boot, f.synced = now.boot, now.synced
		c.list(f)
		mark := c.index.MarkStored
		if f.Sole() {
			mark = c.index.MarkSole
		}
		agree(c.log, key, mark(key))
		return
	case f != nil:
		agree(c.log, key, c.index.Remove(key))
		c.unlist(f)
	default:
		s.brought = append(s.brought, now.snapshot())
	}
	agree(c.log, key, c.index.Restore(key, now.Size, now.Sole()))
	c.list(now)
}
