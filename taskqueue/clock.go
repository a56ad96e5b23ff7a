package taskqueue

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

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
}

// Random is the randomness a rule may use; *math/rand/v2.Rand satisfies it.
type Random interface {
	Uint64() uint64
	IntN(n int) int
	Shuffle(n int, swap func(i, j int))
}

// Effects tells the edge what changed, once the transaction is durable.
type Effects struct {
	// WakeAll asks for every site's parked Sync to look again.
	WakeAll bool
	// Wake lists sites whose parked Sync should look again.
	Wake map[string]struct{}
	// Workflows lists workflows whose progress changed.
	Workflows map[string]struct{}
	// Pilots lists pilots whose parked Pull should look again.
	Pilots map[task.PilotID]struct{}
	// Tasks lists tasks that became READY, or ceased to be, or whose inputs
	// changed while they were; TooMany tells that they are not listed because
	// they are many.
	Tasks   map[task.ID]struct{}
	TooMany bool
	// Nodes tells which worker nodes were set back, or are no more.
	Nodes []NodeNews
	// Ends tells what speaks for or against nodes of sites where the queue matches.
	Ends []NodeEnd
	// Modes tells that sites were added or changed, Sites what of it is for the log.
	Modes bool
	Sites []SiteNews
}
