package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Retry says how temporary errors are tried again: after a random share of a
// pause that doubles (full jitter), so that a thousand pilots that failed
// together do not come back together. Zero fields mean the defaults.
type Retry struct {
	Attempts int           // tries in all: 4
	Base     time.Duration // longest first pause: 200 ms
	Cap      time.Duration // longest pause at all, also when the server asks for more: 10 s
	// Budget is how many retries a host may get beyond a tenth of the requests
	// that succeeded: 10. It keeps retries from multiplying the load on an
	// element that is down for all.
	Budget int
	// Sleep waits unless the context ends; Random draws from [0, 1). Tests
	// replace them.
	Sleep  func(ctx context.Context, pause time.Duration) error
	Random func() float64
}

func (r Retry) withDefaults() Retry {
	if r.Attempts == 0 {
		r.Attempts = 4
	}
	if r.Base == 0 {
		r.Base = 200 * time.Millisecond
	}
	if r.Cap == 0 {
		r.Cap = 10 * time.Second
	}
	if r.Budget == 0 {
		r.Budget = 10
	}
	if r.Sleep == nil {
		r.Sleep = sleep
	}
	if r.Random == nil {
		r.Random = rand.Float64
	}
	return r
}

func sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pause before try number n (the first retry is 1).
func (r Retry) pause(n int, serverAsks time.Duration) time.Duration {
	longest := r.Cap
	if n < 32 && r.Base<<(n-1) > 0 { // else the doubling overflowed
		longest = min(r.Cap, r.Base<<(n-1))
	}
	return max(time.Duration(r.Random()*float64(longest)), min(serverAsks, r.Cap))
}

// refillShare is how much of a retry a success earns.
const refillShare = 0.1

// budget bounds retries to one host. Safe for concurrent use.
type budget struct {
	mu     sync.Mutex
	tokens float64
	limit  float64
}

func newBudget(limit int) *budget { return &budget{tokens: float64(limit), limit: float64(limit)} }

func (b *budget) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.limit, b.tokens+refillShare)
}

func (b *budget) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// run calls try until it succeeds, fails for good, or attempts or budget are
// used up.
func (r Retry) run(ctx context.Context, b *budget, try func() error) error {
	for n := 1; ; n++ {
		err := try()
		if err == nil {
			b.succeeded()
			return nil
		}
		if n >= r.Attempts || !Temporary(err) || ctx.Err() != nil || !b.take() {
			return err
		}
		var failed *Error
		errors.As(err, &failed)
		if sleepErr := r.Sleep(ctx, r.pause(n, failed.retryAfter)); sleepErr != nil {
			// The end of the context is the reason now; the failure before it
			// is for people only and must not look temporary.
			return fmt.Errorf("%w, while waiting to try again after: %s", sleepErr, err.Error())
		}
	}
}
