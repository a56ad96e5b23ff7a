package taskqueue

import "time"

// Instant is a moment on the service clock: nanoseconds that the queue was
// able to serve since it was created. A server advances the clock, by at most
// MaxClockStep at a time, only while the store accepts writes, so an outage
// expires no lease. It is never compared with any host's clock.
type Instant int64

// MaxClockStep bounds how far one tick may move the service clock.
const MaxClockStep = 5 * time.Second

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Turn is what one call of a rule works on.
type Turn struct {
	Tx
	Clock   Instant   // service clock: leases, backoff, liveness
	Wall    time.Time // for people: created, started, ended
	Random  Random    // seeded by the caller; ids and sampled contacts
	Effects *Effects  // collected, carried out after the commit
	By      Person    // who has it done, for the audit log; of no name: a pilot, or the queue itself
	Token   string    // id of the access that was shown
}

// Random is the randomness a rule may use; *math/rand/v2.Rand satisfies it.
type Random interface {
	Uint64() uint64
	IntN(n int) int
	Shuffle(n int, swap func(i, j int))
}
