package agent

import "time"

// idleness ends a pilot that has had nothing to do for so long.
type idleness struct {
	most  time.Duration // 0 is for ever
	since time.Time
}

// over takes in how many payloads the pilot has in hand, and tells whether it is
// to end.
func (i *idleness) over(now time.Time, payloads int) bool {
	if payloads > 0 || i.since.IsZero() {
		i.since = now
	}
	return i.most > 0 && now.Sub(i.since) >= i.most
}
