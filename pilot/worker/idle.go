package worker

import "time"

// Idleness ends a pilot that has had nothing to do for so long.
type Idleness struct {
	Most  time.Duration // 0 is for ever
	since time.Time
}

// Over takes in how many payloads the pilot has in hand, and tells whether it is
// to end.
func (i *Idleness) Over(now time.Time, payloads int) bool {
	if payloads > 0 || i.since.IsZero() {
		i.since = now
	}
	return i.Most > 0 && now.Sub(i.since) >= i.Most
}
