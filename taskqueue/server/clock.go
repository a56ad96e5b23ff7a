package server

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

const (
	// metaClock keeps the service clock in the store.
	metaClock = "clock"
	// firstInstant is where the clock of a new queue begins: zero has a
	// meaning of its own in many records.
	firstInstant = taskqueue.Instant(time.Second)
	// maxSweeps bounds the ticks of the rules in one tick of the clock.
	maxSweeps = 50
)

// clock is the service clock of a running server.
type clock struct {
	current atomic.Int64
	stirred atomic.Bool // something has changed, beside the clock and signs of life, since the last tick of the rules began
	// What follows belongs to the goroutine that ticks.
	last      time.Time // of the last tick
	persisted taskqueue.Instant
	due       taskqueue.Instant // of the rules' next tick
	trouble   atomic.Pointer[string]
}

func (c *clock) now() taskqueue.Instant { return taskqueue.Instant(c.current.Load()) }

// failing says why the store takes no writes; "" if it does.
func (c *clock) failing() string {
	if text := c.trouble.Load(); text != nil {
		return *text
	}
	return ""
}

// loadClock goes on where the queue may have been when it ended, which is less than
// Persist after it last wrote the clock: nothing in the store has happened later
// than now.
func (s *Server) loadClock(ctx context.Context) error {
	at := firstInstant
	err := s.turns.view(ctx, func(t *taskqueue.Turn) error {
		text, err := t.Meta().Get(metaClock)
		if err != nil || len(text) == 0 {
			return err
		}
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return fmt.Errorf("the service clock in the store is damaged: %w", err)
		}
		at = taskqueue.Instant(n).Add(s.config.Timing.Persist)
		sites := taskqueue.Read(t.Sites().All())
		for i := range sites {
			s.masters.desk.Assume(sites[i].Name, sites[i].Term, at)
		}
		return nil
	})
	s.turns.clock.current.Store(int64(at))
	s.turns.clock.persisted, s.turns.clock.due = at, at
	return err
}

// lookAgain has sites asked for outputs of which the store knows no copy: it may
// be a backup that was put back.
func (s *Server) lookAgain(ctx context.Context) error {
	return s.unlessFull(s.turns.update(ctx, s.turns.rules.LookAgain))
}

// runClock advances the service clock, writes what is to be written now and
// then, and lets the rules do what is due, until ctx ends.
func (s *Server) runClock(ctx context.Context) error {
	ticker := time.NewTicker(s.config.Timing.ClockTick)
	defer ticker.Stop()
	s.turns.clock.last = time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		s.advance(ctx, time.Now())
		s.lookForRoom(ctx, time.Now())
		if s.turns.clock.failing() == "" {
			s.tickRules(ctx)
		}
	}
}

// advance moves the clock by the time since the last tick, but only while
// the store takes writes: an outage expires nothing.
func (s *Server) advance(ctx context.Context, now time.Time) {
	elapsed := min(now.Sub(s.turns.clock.last), taskqueue.MaxClockStep)
	s.turns.clock.last = now
	next := s.turns.clock.now().Add(elapsed)
	switch {
	case s.turns.clock.failing() != "":
		_ = s.persist(ctx, s.turns.clock.now()) // noted; the next tick tries again or goes on
	case next.Sub(s.turns.clock.persisted) < s.config.Timing.Persist:
		s.turns.clock.current.Store(int64(next))
	default:
		if s.persist(ctx, next) == nil {
			s.turns.clock.current.Store(int64(next))
		}
	}
}

// persist writes, in one transaction, the clock, the signs of life of parked
// Syncs and the counts of requests.
func (s *Server) persist(ctx context.Context, at taskqueue.Instant) error {
	err := s.requests.store(ctx, func(counts map[task.Site]*tally) error { return s.persistWith(ctx, at, counts) })
	if err == nil {
		s.turns.clock.persisted = at
	}
	s.noteTrouble(ctx, err)
	return err
}

func (s *Server) persistWith(ctx context.Context, at taskqueue.Instant, counts map[task.Site]*tally) error {
	now := s.turns.clock.now() // not the time to come: a connection may end before that
	signs := s.masters.matching.SignsDue(now)
	return s.turns.updateAt(ctx, at, func(t *taskqueue.Turn) error {
		if err := t.Meta().Set(metaClock, strconv.AppendInt(nil, int64(at), 10)); err != nil {
			return fmt.Errorf("save the service clock: %w", err)
		}
		taskqueue.Check(s.masters.matching.SaveSigns(t, signs, now))
		return s.saveRequests(t, counts)
	})
}

// noteTrouble says once when writing stops and once when it goes on.
func (s *Server) noteTrouble(ctx context.Context, err error) {
	before := s.turns.clock.failing()
	switch {
	case ctx.Err() != nil:
		return
	case err == nil && before != "":
		s.turns.clock.trouble.Store(nil)
		s.config.Log.Info("the store takes writes again; the service clock goes on")
	case err != nil:
		text := err.Error()
		s.turns.clock.trouble.Store(&text)
		if before == "" {
			s.config.Log.Error("the store takes no writes; the service clock stands still", "error", err)
		}
	}
	s.tellHealth()
}

// tickRules runs the rules' own ticks when they are due.
func (s *Server) tickRules(ctx context.Context) {
	c := &s.turns.clock
	for range maxSweeps {
		if c.stirred.Load() {
			deadline, err := s.deadline(ctx, false)
			if err != nil {
				s.noteTrouble(ctx, err)
				return
			}
			c.due = min(c.due, deadline)
		}
		if c.now() < c.due || ctx.Err() != nil {
			return
		}
		c.stirred.Store(false)
		if err := s.turns.update(ctx, s.turns.rules.Tick); err != nil {
			s.noteTrouble(ctx, err)
			return
		}
		var err error
		if c.due, err = s.deadline(ctx, !c.stirred.Load()); err != nil {
			s.noteTrouble(ctx, err)
			return
		}
	}
}

func (s *Server) deadline(ctx context.Context, rests bool) (taskqueue.Instant, error) {
	return seen(ctx, s.turns, func(t *taskqueue.Turn) (taskqueue.Instant, error) { return s.turns.rules.Deadline(t, rests) })
}
