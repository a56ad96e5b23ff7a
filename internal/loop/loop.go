// Package loop is the one goroutine that owns a core, or several: everybody else
// posts work to it, and it wakes at the deadlines of its cores.
package loop

import (
	"context"
	"sync"
	"time"
)

// Loop is an unbounded queue of work for one goroutine. Whoever posts never waits,
// so what calls back from the outside cannot deadlock with it. Make it with New.
type Loop struct {
	mu     sync.Mutex
	queued []func()
	wake   chan struct{}
}

// New returns a loop for one Run.
func New() *Loop { return &Loop{wake: make(chan struct{}, 1)} }

// Post has work done by the goroutine of Run, in the order of each poster. It may
// be called from any goroutine, also before Run; what is posted after the end of
// Run is not done.
func (l *Loop) Post(work func()) {
	l.mu.Lock()
	l.queued = append(l.queued, work)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// exactness is within what time of a deadline the loop wakes.
const exactness = time.Millisecond

// Run does what is posted until ctx ends. At the earliest of the deadlines, which
// are looked at before any work and after it, it calls tick; a zero deadline is none.
// It may call tick at a deadline that has moved to a later time: most move with every
// work, and a timer costs more than a tick.
func (l *Loop) Run(ctx context.Context, tick func(), deadlines ...func() time.Time) error {
	const never = time.Hour
	timer := time.NewTimer(never)
	defer func() { timer.Stop() }()
	fires := time.Now().Add(never)
	for {
		next := time.Now().Add(never)
		for _, deadline := range deadlines {
			if at := deadline(); !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if next.Before(fires.Add(-exactness)) {
			// Not Reset: once the new time has come the runtime would look through all
			// timers of the process, and thousands of loops may share one.
			timer.Stop()
			timer, fires = time.NewTimer(time.Until(next)), next
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
			for _, work := range l.take() {
				work()
			}
		case <-timer.C:
			timer.Reset(never)
			fires = time.Now().Add(never)
			tick()
		}
	}
}

func (l *Loop) take() []func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	work := l.queued
	l.queued = nil
	return work
}
