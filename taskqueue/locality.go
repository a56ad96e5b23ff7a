package taskqueue

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// handOutWait is how long a site's free slots leave tasks to a site that has
// their inputs. Where tasks are assigned in rounds of a fixed period, or the
// queue matches them, nothing is left.
func (c *Config) handOutWait(s *SiteRecord) time.Duration {
	if s.RoundEvery > 0 || s.InForce().Central() {
		return 0
	}
	return c.localityWait(s)
}

// turnsWaitedFor is how many tasks of a slot are left to a site.
const turnsWaitedFor = 2

// turns is how many tasks a site's slots begin within the wait, at the most some
// turns of each; none without a wait.
func (c *Config) turns(s *SiteRecord, wait time.Duration) int {
	if wait <= 0 {
		return 0
	}
	turns := 1 // while run times are unknown
	if median, known := s.medianRun(c.HandOut.KnownAfter); known {
		turns = int(min(turnsWaitedFor, wait/max(median, time.Millisecond)))
	}
	return turns * s.slots()
}

// soon is how many more tasks than it has a site comes to within the wait, at
// least what it has free slots for.
func (c *Config) soon(s *SiteRecord, wait time.Duration) int {
	return max(0, s.slots()-s.Leased, c.turns(s, wait)-s.unstarted())
}

// prefers tells whether a site has most bytes of a task's inputs. Description,
// inputs and sites are loaded.
func (c *classes) prefers(site task.Site, spec *task.Task) bool {
	class, ok := c.of(spec)
	return ok && class.Prefer == site
}
