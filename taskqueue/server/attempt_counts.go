package server

import (
	"maps"
	"sync"

	"github.com/pilotage-grid/pilotage/task"
)

// attemptKey is what attempts are counted by.
type attemptKey struct {
	site    task.Site
	outcome string // succeeded, failed, or one of refusedOutcomes
	reason  string // of a failure
}

// attemptCounts counts the outcomes that the queue has answered, since it began.
type attemptCounts struct {
	mu     sync.Mutex
	counts map[attemptKey]uint64
}

// refusedOutcomes are outcomes that the queue does not take, by its verdict.
var refusedOutcomes = map[task.AckVerdict]string{task.AckDuplicate: "duplicate", task.AckStale: "rejected", task.AckUnknown: "unknown"}

func (c *attemptCounts) add(site task.Site, o *task.Outcome, verdict task.AckVerdict) {
	key := attemptKey{site: site, outcome: "failed"}
	switch {
	case verdict != task.AckAccepted:
		key.outcome = refusedOutcomes[verdict]
	case o.OK:
		key.outcome = "succeeded"
	default:
		key.reason = o.Failure.String()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[attemptKey]uint64)
	}
	c.counts[key]++
}

func (c *attemptCounts) all() map[attemptKey]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}
