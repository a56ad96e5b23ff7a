package manysites

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/pilot"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Config describes a run. Pilots have one slot each and are all there at the
// start; tasks are independent, take one slot and read and write no files.
type Config struct {
	Sites, Pilots int // pilots of each site
	Tasks         int
	// Workflow is how many tasks are submitted together, Ahead how many READY
	// tasks the queue is kept supplied with, in tasks a slot: then the next
	// workflow is submitted, in the parts that a client sends.
	Workflow int
	Ahead    float64
	// Usual is the mean time of a task; each takes 0.7 to 1.3 of it.
	Usual time.Duration
	// RoundEvery and Prefill as in a site's settings: 0 is event-driven; prefill
	// 0 is none.
	RoundEvery time.Duration
	Prefill    int
	// Latency of a message within a site, QueueLatency to the queue, one way.
	Latency, QueueLatency time.Duration
	Service               Service
	Pilot                 pilot.Config
	Queue                 taskqueue.Config
	Seed                  uint64
	// Sample is how often the state of things is noted.
	Sample time.Duration
	// Noted, if set, is called with every sample.
	Noted func(Sample)
	// Stopwatch tells how much processor time the caller has used, for the cost
	// of the queue's rules; nil measures nothing.
	Stopwatch func() time.Duration
}

// Service is what a call costs the queue's server in virtual time.
type Service struct {
	Call      time.Duration
	Submitted time.Duration // a task
	Handed    time.Duration // a task
	Outcome   time.Duration // with the word of its start
}

// DefaultConfig is a grid of paper 004's tasks (3.3 min) with the product's
// settings.
func DefaultConfig() Config {
	queue := taskqueue.DefaultConfig()
	// A look at all pilots of all sites for such as are past their end takes
	// seconds here.
	queue.Site.OverdueEvery = 10 * time.Minute
	return Config{
		Sites: 100, Pilots: 1_000, Tasks: 1_000_000, Workflow: 100_000, Ahead: 1,
		Usual: 198 * time.Second, Prefill: 1,
		Latency: time.Millisecond / 4, QueueLatency: 25 * time.Millisecond,
		Service: Service{
			Call: 300 * time.Microsecond, Submitted: 50 * time.Microsecond,
			Handed: 25 * time.Microsecond, Outcome: 50 * time.Microsecond,
		},
		Pilot: pilot.DefaultConfig(), Queue: queue, Sample: 5 * time.Second,
	}
}

func (c *Config) check() error {
	if c.Sites < 1 || c.Pilots < 1 || c.Tasks < 1 || c.Workflow < 1 {
		return fmt.Errorf("%d sites, %d pilots, %d tasks, %d in a workflow: at least one of each is needed", c.Sites, c.Pilots, c.Tasks, c.Workflow)
	}
	if c.Usual < time.Second || c.Sample <= 0 || c.Ahead <= 0 || c.Prefill < 0 || c.RoundEvery < 0 {
		return fmt.Errorf("a task must take at least 1 s, the sampling period and the supply must be above 0, prefill and period not below")
	}
	return nil
}
