package agent

import (
	"context"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// claimTime bounds one question to the queue for the mastership.
const claimTime = 3 * time.Second

// claims asks the queue for the mastership. It is safe for concurrent use.
type claims struct {
	*shell

	queue  Queue
	reach  *reach
	settle settingsHeard

	mu      sync.Mutex
	granted *ClaimReply // last granted claim, until the mastership begins
	refused task.Term   // in office when the last claim was refused
	unasked bool        // the last claim did not reach the queue
	cutOff  cutOff
}

// claim asks the queue for the mastership.
func (c *claims) claim(ctx context.Context, claim dht.Claim) dht.ClaimAnswer {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	asked := time.Now()
	reply, err := c.queue.Claim(ctx, claim)
	if err != nil {
		c.heed(err)
		c.mu.Lock()
		known := c.unasked
		c.unasked = true
		c.mu.Unlock()
		if !known { // a claim is repeated every half second
			c.log.Warn("the queue cannot be asked for the mastership", "error", err)
		}
		return dht.ClaimAnswer{}
	}
	c.settle(asked, reply.Settings)
	c.mu.Lock()
	c.unasked = false
	known := c.refused
	if c.refused = reply.Term; reply.Granted {
		c.granted, c.refused = &reply, task.Term{}
	}
	cutOff := !reply.Granted && !c.reach.settings.isolated() && c.cutOff.refused(time.Now())
	c.mu.Unlock()
	if !reply.Granted && known != reply.Term {
		c.log.Info("the mastership was not granted", "why", reply.Why)
	}
	if cutOff {
		c.reach.tellUnreachable(ctx, "it hears no master, and the queue does: "+reply.Why)
	}
	return dht.ClaimAnswer{Reached: true, Granted: reply.Granted, Term: reply.Term, Master: reply.Master, Members: reply.Pilots, Signature: reply.Signature}
}

// take returns the claim by which a term was granted, once.
func (c *claims) take(term task.Term) *ClaimReply {
	c.mu.Lock()
	defer c.mu.Unlock()
	granted := c.granted
	if granted == nil || granted.Term != term {
		return nil
	}
	c.granted = nil
	return granted
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
