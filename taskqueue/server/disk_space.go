package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// enoughRoom is how much space ends a full disk for the queue: what the store
// writes between two tidyings of its log. With less, small writes succeed where
// a submission fails.
const enoughRoom = 16 << 20

// room is what the server knows of the space on its disk.
type room struct {
	full    atomic.Pointer[string] // why a write failed; nil while there is room
	missing atomic.Bool            // what a start writes was not written for lack of space
	looked  time.Time              // belongs to the goroutine that ticks
}

// lacking says which write found no space; "" while there is room.
func (r *room) lacking() string {
	if text := r.full.Load(); text != nil {
		return *text
	}
	return ""
}

func isFull(err error) bool {
	return errors.Is(err, taskqueue.ErrDiskFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// noteFull remembers that the disk is full, if that is what the error says.
func (s *Server) noteFull(err error) {
	if !isFull(err) {
		return
	}
	text := err.Error()
	if s.room.full.Swap(&text) == nil {
		s.config.Log.Error("the queue's disk is full: reads go on, writes are refused until there is room", "folder", s.config.DataDir, "error", err)
	}
	s.tellHealth()
}

// unlessFull lets a start go on without what it was to write, if there was no space
// for it: it is written later.
func (s *Server) unlessFull(err error) error {
	if !isFull(err) {
		return err
	}
	s.noteFull(err)
	s.room.missing.Store(true)
	return nil
}

// prepareFiles sees to the files for others in the folder.
func (s *Server) prepareFiles(ctx context.Context) error {
	return s.unlessFull(s.writeFiles(ctx))
}

func (s *Server) writeFiles(ctx context.Context) error {
	if err := writeFile(filepath.Join(s.config.DataDir, authorityFile), []byte(s.access.authorityPEM), 0o644); err != nil {
		return err
	}
	return s.access.prepareAccess(ctx)
}

// lookForRoom ends the trouble of a full disk, now and then, when there is room
// again, and writes what the start could not.
func (s *Server) lookForRoom(ctx context.Context, now time.Time) {
	if s.room.full.Load() == nil || now.Sub(s.room.looked) < s.config.Timing.Persist {
		return
	}
	s.room.looked = now
	if !hasRoom(s.config.DataDir) {
		return
	}
	if s.room.missing.Load() {
		if err := errors.Join(s.writeFiles(ctx), s.writeRunFile(), s.turns.update(ctx, s.turns.rules.LookAgain)); err != nil {
			if !isFull(err) {
				s.config.Log.Error("what a start writes was not written", "error", err)
			}
			return
		}
		s.room.missing.Store(false)
	}
	s.room.full.Store(nil)
	s.config.Log.Info("there is room on the queue's disk again")
	s.tellHealth()
}

// hasRoom tells whether a folder's file system has enoughRoom, also for this
// user. One that cannot tell is believed.
func hasRoom(folder string) bool {
	var system syscall.Statfs_t
	if syscall.Statfs(folder, &system) == nil && system.Bavail*uint64(system.Bsize) < enoughRoom {
		return false
	}
	file, err := os.CreateTemp(folder, ".room-*")
	if err != nil {
		return !isFull(err)
	}
	defer file.Close()
	_ = os.Remove(file.Name()) // its space goes with the process at the latest
	return !isFull(syscall.Fallocate(int(file.Fd()), 0, 0, enoughRoom))
}
