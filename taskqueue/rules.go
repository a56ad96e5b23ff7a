package taskqueue

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Rules are the queue's rules. They keep nothing but their settings, so any
// number of servers may apply them to one store. Every method but Explain,
// Deadline and Settings belongs into an Update; when it returns an error the
// transaction must be abandoned.
type Rules struct {
	Config Config
}

// NewRules returns rules with the given settings.
func NewRules(config Config) *Rules { return &Rules{Config: config} }

// Settings returns what a site's pilots need to know of it.
func (r *Rules) Settings(site SiteRecord) task.SiteSettings {
	return task.SiteSettings{
		Site:       site.Name,
		SE:         site.SE,
		RemoteRead: site.RemoteRead,
		Mode:       string(site.InForce()),
		ModeSince:  uint64(site.ModeSince),
		Draining:   site.Draining,
		Trial:      uint64(site.Trial),
		SiteScheduling: task.SiteScheduling{
			RoundEvery: site.RoundEvery, Prefill: r.Config.prefill(&site), LocalityWait: r.Config.localityWait(&site),
			Solver: site.Solver, Rank: site.Rank, Replicate: site.Replicate,
		},
	}
}

// prefill is how many further tasks a slot of a site is given early.
func (c *Config) prefill(site *SiteRecord) int {
	switch site.Prefill {
	case 0:
		return c.Site.Prefill
	case NoPrefill:
		return 0
	}
	return site.Prefill
}

// localityWait is how long a site's free slots leave tasks to others.
func (c *Config) localityWait(site *SiteRecord) time.Duration {
	switch site.LocalityWait {
	case 0:
		return c.Site.LocalityWait
	case NoLocalityWait:
		return 0
	}
	return site.LocalityWait
}
