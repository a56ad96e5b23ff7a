package disk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	lost error // why there is no turn any more
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
	sharers int
	pins    map[int64]int // of this process, by place
	brought []Entry
}

const (
	alone      = 0 // the number of a process that has a folder of its own
	recordSize = 8
	maxSharers = 500
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
	if err := s.takeTurn(c.log); err != nil {
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
		s.brought = nil  // nobody was told of any file yet
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

// Whoever has the turn has it for less than a second, unless many files are new to it.
const (
	turnWarned = 10 * time.Second
	turnMost   = 5 * time.Minute
)

// takeTurn waits for the turn. A process that is stopped while it has it, or hangs, holds
// the others up for so long only.
func (s *sharing) takeTurn(log *slog.Logger) error {
	err := filelock.LockWithin(s.turn, turnWarned)
	if !errors.Is(err, filelock.ErrHeld) {
		return err
	}
	log.Warn("the shared cache folder waits for another pilot", "folder", s.dir, "for", turnWarned, "held by", filelock.Holder(s.turn))
	if err = filelock.LockWithin(s.turn, turnMost-turnWarned); errors.Is(err, filelock.ErrHeld) {
		err = fmt.Errorf("%s has held it up for %s: end that one, or give this pilot another folder", filelock.Holder(s.turn), turnMost)
	}
	return err
}

// enter begins what changes the folder, or must know how it is.
func (c *Cache) enter() {
	s := c.shared
	if s == nil {
		c.mu.Lock()
		return
	}
	s.mu.Lock()
	if s.lost != nil {
		c.mu.Lock()
		return
	}
	err := s.takeTurn(c.log)
	c.mu.Lock()
	if c.closed {
		return
	}
	if err != nil {
		s.lost = fmt.Errorf("the shared cache folder %s cannot be used any more: %w", c.dir, err)
		c.closed = true
		return
	}
	c.catchUp()
	c.countOthers()
}

// leave ends it, frees the room of forgotten files, and tells what has come and gone.
func (c *Cache) leave() {
	s, lost := c.shared, c.lost
	c.lost = losses{}
	if s == nil {
		c.mu.Unlock()
		c.finish(lost)
		return
	}
	if !c.closed {
		s.tell(int64(c.index.ReservedHere()) + 1)
	}
	brought := s.brought
	s.brought = nil
	c.mu.Unlock()
	_ = filelock.Unlock(s.turn) // fails when it is closed, and free
	s.mu.Unlock()
	c.finish(lost)
	if len(brought) > 0 && c.config.Brought != nil {
		c.config.Brought(brought)
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
		c.shared.brought = append(c.shared.brought, f.snapshot())
	}
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

// Follow notes what others do in a shared folder, until ctx ends or the folder cannot be
// used any more.
func (c *Cache) Follow(ctx context.Context) error {
	for c.shared != nil && ctx.Err() == nil {
		wait(ctx, followPause)
		c.enter()
		lost := c.shared.lost
		c.leave()
		if lost != nil {
			return lost
		}
	}
	return nil
}
