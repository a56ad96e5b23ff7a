package agent

import (
	"context"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// portsCheck is the name of the check that a site may do without.
const portsCheck = "ports"

// withoutPeers asks whether the site does without its network, if the
// self-check says that no peer reaches this pilot: then that is no reason to
// take no work.
func (a *Agent) withoutPeers(ctx context.Context, findings []Finding) {
	for i := range findings {
		if f := &findings[i]; f.What == portsCheck && !f.OK && a.tellUnreachable(ctx, f.Detail) {
			f.OK, f.Detail = true, "the site does without its network: "+f.Detail
		}
	}
}

// tellUnreachable tells the queue that this pilot cannot talk with the others
// of its site, and whether the site does without that from now on.
func (a *Agent) tellUnreachable(ctx context.Context, reason string) bool {
	asked := time.Now()
	settings, err := a.queue.Unreachable(ctx, oneLine(reason))
	if err != nil {
		a.log.Warn("the queue could not be told that this pilot is cut off from the others", "error", err)
		return false
	}
	a.takeSettings(asked, settings)
	isolated := settings.Mode == task.ModeIsolated
	a.log.Warn("this pilot is cut off from the others of its site", "reason", reason, "isolated", isolated)
	return isolated
}

const (
	// cutOffAfter is how long a pilot is refused the mastership, since the master
	// that it cannot reach is in office, until it tells the queue so.
	cutOffAfter = 20 * time.Second
	// cutOffAgain is how long it waits until it tells it again.
	cutOffAgain = time.Minute
	// cutOffPause ends a row of refusals: claims are repeated at pauses that grow
	// to dht.Config.ClaimMost, 10 s.
	cutOffPause = 20 * time.Second
)

// cutOff notices that a pilot is refused the mastership for long. It is not
// safe for concurrent use.
type cutOff struct {
	since time.Time // of the first refusal of the row
	last  time.Time
	quiet time.Time // nothing is told before
}

// refused takes a refusal and tells whether it is time to tell the queue.
func (c *cutOff) refused(now time.Time) bool {
	if now.Sub(c.last) > cutOffPause {
		c.since = now
	}
	c.last = now
	if now.Sub(c.since) < cutOffAfter || now.Before(c.quiet) {
		return false
	}
	c.quiet = now.Add(cutOffAgain)
	return true
}
