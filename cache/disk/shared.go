package disk

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/blake3"

	"github.com/pilotage-grid/pilotage/internal/filelock"
	"github.com/pilotage-grid/pilotage/task"
)

// sharing is what caches of several processes on one folder agree by. What is on the
// disk is what counts; each process has an index of its own, of all files. A change,
// and a look that must be true, is made by whoever has the turn, and has read what
// the others have changed since it had the turn last. All locks are the kernel's and
// go with their process, however it ends.
type sharing struct {
	dir  string
	mu   sync.Mutex // has the turn within this process
	turn *os.File
	// users has a record for each number of a process: what it has reserved, and 1.
	// Its first byte is locked by a process that lives.
	users *os.File
	self  int // the number of this process, from 1
	told  int64
	// Bytes of inUse and of fetching are locked, at a place that follows from a file's
	// digest or key.
	inUse    *os.File
	fetching *os.File
	// journal names files that have changed or were used since it was begun; who
	// cannot go on reading it reads the whole folder. Nothing depends on it otherwise.
	journal *os.File
	read    int64

	// Of Cache.mu:
	sharers   int
	pins      map[int64]int // of this process, by place
	gone      []task.FileKey
	came, due []Entry // due are to be told as inherited
}

const (
	alone      = 0 // the number of a process that has a folder of its own
	recordSize = 8
	maxSharers = 500

	// A line of the journal has a length that no page boundary cuts: it is written
	// whole or not at all.
	lineSize    = 64
	maxJournal  = 4 << 20
	fileChanged = 'c'
	fileUsed    = 'u'
)

func tempPrefix(self int) string { return strconv.Itoa(self) + "-" }

func (c *Cache) self() int {
	if c.shared == nil {
		return alone
	}
	return c.shared.self
}

// share opens a folder beside others.
func (c *Cache) share() (err error) {
	s := &sharing{dir: c.dir, pins: map[int64]int{}}
	for name, file := range map[string]**os.File{"turn": &s.turn, "users": &s.users, "uses": &s.inUse, "fetches": &s.fetching} {
		if *file, err = os.OpenFile(filepath.Join(c.dir, name), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return errors.Join(err, s.close())
		}
	}
	if err := filelock.Lock(s.turn, true); err != nil {
		return errors.Join(err, s.close())
	}
	for s.self = 1; ; s.self++ {
		err := filelock.LockByte(s.users, s.record(s.self), false)
		if err == nil {
			break
		}
		if !errors.Is(err, filelock.ErrHeld) || s.self == maxSharers {
			return errors.Join(err, s.close())
		}
	}
	c.shared = s
	s.mu.Lock() // which leave unlocks
	c.mu.Lock()
	err = errors.Join(c.removeTemps(s.self), s.reopenJournal(), c.recover())
	if err == nil {
		c.countOthers()
		c.inherit(alone) // from a time when the folder was not shared
		s.due = nil      // nobody was told of any file yet
	}
	c.leave()
	if err != nil {
		return errors.Join(err, s.close())
	}
	return nil
}

func (s *sharing) close() error {
	var failures []error
	for _, file := range []*os.File{s.turn, s.users, s.inUse, s.fetching, s.journal} {
		if file != nil {
			failures = append(failures, file.Close())
		}
	}
	return errors.Join(failures...)
}

func (s *sharing) record(number int) int64 { return int64(number) * recordSize }

// enter begins what changes the folder, or must know how it is.
func (c *Cache) enter() {
	s := c.shared
	if s == nil {
		c.mu.Lock()
		return
	}
	s.mu.Lock()
	err := filelock.Lock(s.turn, true)
	c.mu.Lock()
	if c.closed {
		return
	}
	if err != nil {
		c.log.Error("the shared cache folder cannot be used any more", "folder", c.dir, "error", err)
		c.closed = true
		return
	}
	c.catchUp()
	c.countOthers()
}

// leave ends it, and tells what the others have done.
func (c *Cache) leave() {
	s := c.shared
	if s == nil {
		c.mu.Unlock()
		return
	}
	if !c.closed {
		s.tell(int64(c.index.ReservedHere()) + 1)
	}
	gone, came, due := s.gone, s.came, s.due
	s.gone, s.came, s.due = nil, nil, nil
	c.mu.Unlock()
	_ = filelock.Unlock(s.turn) // fails when it is closed, and free
	s.mu.Unlock()
	c.finish(losses{keys: gone})
	if len(came) > 0 && c.config.Came != nil {
		c.config.Came(came)
	}
	if len(due) > 0 && c.config.Inherited != nil {
		c.config.Inherited(due)
	}
}

// tell writes this process's record.
func (s *sharing) tell(value int64) {
	if value == s.told {
		return
	}
	var text [recordSize]byte
	binary.LittleEndian.PutUint64(text[:], uint64(value))
	if _, err := s.users.WriteAt(text[:], s.record(s.self)); err == nil {
		s.told = value
	}
}

// countOthers adds up what the others have reserved, and puts the affairs of those
// in order that are gone.
func (c *Cache) countOthers() {
	s := c.shared
	text := make([]byte, (maxSharers+1)*recordSize)
	n, _ := s.users.ReadAt(text, 0) // the file may be shorter
	var reserved task.Bytes
	s.sharers = 1
	for number := 1; (number+1)*recordSize <= n; number++ {
		value := int64(binary.LittleEndian.Uint64(text[number*recordSize:]))
		if value == 0 || number == s.self {
			continue
		}
		lives, err := filelock.ByteHeld(s.users, s.record(number))
		if err != nil || lives {
			reserved += task.Bytes(value - 1)
			s.sharers++
			continue
		}
		if err := c.removeTemps(number); err != nil {
			c.log.Warn("cannot remove what a pilot that is gone was fetching", "folder", c.dir, "error", err)
			reserved += task.Bytes(value - 1)
			continue
		}
		c.inherit(number)
		_, _ = s.users.WriteAt(make([]byte, recordSize), s.record(number)) // else it is done again
	}
	c.index.ReservedElsewhere(reserved)
}

func (c *Cache) removeTemps(number int) error {
	paths, err := filepath.Glob(filepath.Join(c.dir, tempFolder, tempPrefix(number)+"*"))
	for _, path := range paths {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// inherit keeps what a process that is gone has kept.
func (c *Cache) inherit(from int) {
	for _, f := range c.files {
		if !slices.Contains(f.keepers, from) {
			continue
		}
		others, keepers := f.Others, f.keepers
		f.Outputs, f.Others, f.keepers = slices.Clone(f.Outputs), nil, nil
		for i, output := range others {
			switch {
			case keepers[i] != from:
				f.Others, f.keepers = append(f.Others, output), append(f.keepers, keepers[i])
			case !slices.Contains(f.Outputs, output):
				f.Outputs = append(f.Outputs, output)
			}
		}
		c.rewriteMetadata(f)
		c.shared.due = append(c.shared.due, f.snapshot())
	}
}

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

const journalFile = "journal"

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
			_ = c.index.Remove(key) // it has what files has
			s.gone = append(s.gone, c.unlist(f)...)
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
		_ = mark(key)
		return
	case f != nil:
		_ = c.index.Remove(key)
		c.unlist(f)
	default:
		s.came = append(s.came, now.snapshot())
	}
	_ = c.index.Restore(key, now.Size, now.Sole())
	c.list(now)
}

// lockPlace is a byte that stands for a file in the tables of locks. Two files at one
// place are treated alike, which costs a wait or an eviction put off.
func lockPlace(digest task.Digest) int64 {
	return int64(binary.LittleEndian.Uint64(digest[:8]) >> 2)
}

// use tells the others that a file is in use until endUse.
func (c *Cache) use(digest task.Digest) {
	s, at := c.shared, lockPlace(digest)
	if s == nil {
		return
	}
	if s.pins[at]++; s.pins[at] > 1 {
		return
	}
	if err := filelock.LockByte(s.inUse, at, true); err != nil {
		c.log.Warn("other pilots cannot be told that a cached file is in use", "error", err)
	}
}

func (c *Cache) endUse(digest task.Digest) {
	s, at := c.shared, lockPlace(digest)
	if s == nil {
		return
	}
	if s.pins[at]--; s.pins[at] == 0 {
		delete(s.pins, at)
		_ = filelock.UnlockByte(s.inUse, at) // fails when it is closed, and free
	}
}

// usedElsewhere tells whether another process uses a file.
func (c *Cache) usedElsewhere(key task.FileKey) bool {
	digest, known := key.Digest()
	if c.shared == nil || !known {
		return false
	}
	held, err := filelock.ByteHeld(c.shared.inUse, lockPlace(digest))
	return held || err != nil
}

// scrubPlace is behind those of files.
const scrubPlace = 1 << 62

// scrubs tells whether this process is the one that looks for rotted files.
func (c *Cache) scrubs() bool {
	return c.shared == nil || filelock.LockByte(c.shared.fetching, scrubPlace, false) == nil
}

const (
	// fetchPatience is how long a pilot waits for another one of its node to fetch a
	// file before it fetches the file as well: that one may have been stopped.
	fetchPatience = 2 * time.Minute
	fetchPause    = 50 * time.Millisecond
	followPause   = time.Second
)

func fetchPlace(key task.FileKey) int64 { return lockPlace(blake3.Sum256([]byte(key))) }

// Alone waits while another process fetches a file into a shared folder, and has
// others wait until release.
func (c *Cache) Alone(ctx context.Context, key task.FileKey) (release func()) {
	if s, began := c.shared, time.Now(); s != nil {
		for at := fetchPlace(key); time.Since(began) < fetchPatience && ctx.Err() == nil; wait(ctx, fetchPause) {
			err := filelock.LockByte(s.fetching, at, false)
			if err == nil {
				return func() { _ = filelock.UnlockByte(s.fetching, at) }
			}
			if !errors.Is(err, filelock.ErrHeld) {
				break
			}
		}
	}
	return func() {}
}

// Follow notes what others do in a shared folder, until ctx ends.
func (c *Cache) Follow(ctx context.Context) error {
	for c.shared != nil && ctx.Err() == nil {
		wait(ctx, followPause)
		c.enter()
		c.leave()
	}
	return nil
}
