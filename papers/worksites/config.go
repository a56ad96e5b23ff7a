package worksites

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// Scheduler gives tasks out. It is asked in the order of requests.
type Scheduler interface {
	// Request answers a worker that has nothing to do. evicted lists the files
	// that its site's data server has dropped since the site's last request
	// (001, section 3.4). false: there is nothing for it now; it asks again
	// when a task has ended.
	Request(worker int, evicted []int32) (task int32, found bool)
	// Done tells that a worker has completed a task and returns the workers
	// that have a copy of it, which is cancelled.
	Done(worker int, task int32) (cancel []int)
}

// Site is one site of the grid.
type Site struct {
	Speeds    []float64     // of its workers; 1 takes a task's Runtime
	Bandwidth float64       // to the file server, bytes a second
	Latency   time.Duration // one way
	Capacity  int           // of the data server, in files
}

// Config describes a run.
type Config struct {
	Workload *trace.Workload // without dependencies; files of any size
	Sites    []Site
	// ServerBandwidth of the file server's own link, which all sites share,
	// in bytes a second; 0 is no limit.
	ServerBandwidth float64
	// Background is how often each worker's load by other jobs is drawn anew,
	// uniformly from 0 to 100 %; 0 is no load.
	Background time.Duration
	Seed       uint64 // of the background load
	KeepBars   bool   // for a Gantt chart
}

func (c *Config) check() error {
	if len(c.Workload.Tasks) == 0 || len(c.Sites) == 0 {
		return fmt.Errorf("%d tasks on %d sites: there must be some of both", len(c.Workload.Tasks), len(c.Sites))
	}
	most := 0
	for _, t := range c.Workload.Tasks {
		most = max(most, len(t.Inputs))
		for _, f := range t.Inputs {
			if c.Workload.Files[f].Producer != trace.External {
				return fmt.Errorf("task %s reads what another task makes: only bags of independent tasks can be played here", t.Name)
			}
		}
	}
	for i, s := range c.Sites {
		switch {
		case len(s.Speeds) == 0:
			return fmt.Errorf("site %d has no workers", i)
		case s.Bandwidth <= 0:
			return fmt.Errorf("site %d has a bandwidth of %v bytes a second", i, s.Bandwidth)
		case s.Capacity < most:
			return fmt.Errorf("site %d keeps %d files, but a task reads %d", i, s.Capacity, most)
		}
		for _, speed := range s.Speeds {
			if speed <= 0 {
				return fmt.Errorf("site %d has a worker of speed %v", i, speed)
			}
		}
	}
	return nil
}

// SiteOf lists for each worker its site; workers are numbered site by site.
func (c *Config) SiteOf() []int {
	var sites []int
	for i, s := range c.Sites {
		for range s.Speeds {
			sites = append(sites, i)
		}
	}
	return sites
}
