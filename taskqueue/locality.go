package taskqueue

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// leavesFor is the longest time for which a site's free slots leave tasks to pilots
// where they start sooner. Where tasks are assigned in rounds of a fixed period, or
// the queue matches them, nothing is left.
func (c *Config) leavesFor(s *SiteRecord) time.Duration {
	if s.RoundEvery > 0 || s.InForce().Central() {
		return 0
	}
	return c.localityWait(s)
}

// soon is how many more tasks than it has a site has slots for at once.
func (s *SiteRecord) soon() int { return max(0, s.slots()-s.Leased) }

// prefers tells whether a site has most bytes of a task's inputs. Description,
// inputs and sites are loaded.
func (c *classes) prefers(site task.Site, spec *task.Task) bool {
	class, ok := c.of(spec)
	return ok && class.Prefer == site
}
