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
	settle settingsHeard
	refuse func(why string) // told of refusals

	mu      sync.Mutex
	granted *ClaimReply // last granted claim, until the mastership begins
	refused task.Term   // in office when the last claim was refused
	unasked bool        // the last claim did not reach the queue
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
	c.mu.Unlock()
	if !reply.Granted && known != reply.Term {
		c.log.Info("the mastership was not granted", "why", reply.Why)
	}
	if !reply.Granted {
		c.refuse(reply.Why)
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
