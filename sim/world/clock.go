package world

import "time"

// drifting is the clock of a node, which is too fast or too slow by a share of the time.
type drifting struct {
	since, said time.Time // what it said, and when that was in truth
	rate        float64   // seconds of its own for one second; 0: it is right
}

// drift has the clock of a node go at another rate from now on.
func (n *node) drift(rate float64) {
	n.note("a second takes %.3f s by the clock of %s", rate, n.id)
	n.time = drifting{since: n.net.Now(), said: n.clock(), rate: rate}
}

// clock is what the clock of a node says that counts from its start. Whoever sets a
// wall clock does not change it.
func (n *node) clock() time.Time {
	now := n.net.Now()
	if n.time.rate == 0 {
		return now
	}
	return n.time.said.Add(time.Duration(float64(now.Sub(n.time.since)) * n.time.rate))
}

// until is how long it is in truth until a clock says something.
func (d *drifting) until(now, at time.Time) time.Duration {
	if d.rate == 0 {
		return at.Sub(now)
	}
	return d.since.Add(time.Duration(float64(at.Sub(d.said))/d.rate) + 1).Sub(now)
}

// rate counts calls in stretches of time.
type rate struct {
	from  time.Duration
	calls int
	begun int // attempts at the site before
}

// A node in a storm makes some calls a second; one that calls again and again without a
// pause makes hundreds. What its site runs explains some, as a master tells for all of
// its pilots: attempts that fail at once make many.
const (
	rateOver       = 10 * time.Second
	mostCalls      = 250
	callsOfAttempt = 4 // that tell its start and its end, each with one that waits anew
)

// count notes a call, and complains about too many.
func (r *rate) count(now time.Duration, by *node) {
	if now-r.from >= rateOver {
		*r = rate{from: now, begun: by.site.begun}
	}
	attempts := by.site.begun - r.begun
	if r.calls++; by.world.bounded && r.calls == mostCalls+callsOfAttempt*attempts {
		by.judge.Errorf("%s has called the queue %d times within %s, with %d attempts at its site", by.id, r.calls, now-r.from, attempts)
	}
}
