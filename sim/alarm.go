package sim

import "time"

// Clock is one by which a core is driven.
type Clock interface {
	Now() time.Time
	// After calls a function once, unless it is cancelled before.
	After(d time.Duration, do func()) (cancel func())
}

// Alarm wakes a core at its deadline.
type Alarm struct {
	at     time.Time
	cancel func()
}

// Set sets it anew; zero is never.
func (a *Alarm) Set(clock Clock, at time.Time, wake func()) {
	if at.Equal(a.at) {
		return
	}
	if a.cancel != nil {
		a.cancel()
	}
	a.at, a.cancel = at, nil
	if at.IsZero() {
		return
	}
	a.cancel = clock.After(max(at.Sub(clock.Now()), 0), func() {
		a.at = time.Time{}
		wake()
	})
}
