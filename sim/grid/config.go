package grid

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// Node is one worker node with one pilot.
type Node struct {
	Speed     float64 // 1 takes a task's recorded run time
	Slots     int
	Cores     int
	Memory    task.Bytes
	Cache     task.Bytes
	Bandwidth float64 // of its network card, each way, bytes a second
	Features  []string
	FailsAt   time.Duration // 0: never
}

// Site is one site with a storage element.
type Site struct {
	Name  task.Site
	Nodes []Node
	// StorageBandwidth is the storage element's own link, which all readers
	// share, in bytes a second.
	StorageBandwidth float64
	// OneAtATime lets the storage element serve one read after the other.
	OneAtATime bool
	// WideBandwidth is the site's link to the other sites, for reads of their
	// storage elements.
	WideBandwidth float64
	Latency       time.Duration // of a message within the site, one way
	QueueLatency  time.Duration // to the queue, one way
	// RoundEvery and Prefill as in the site's settings: 0 is event-driven, and
	// the queue's default; a negative Prefill is none.
	RoundEvery time.Duration
	Prefill    int
	// Solver, Replicate and LocalityWait as well; empty, and 0, are the queue's
	// defaults, a negative LocalityWait is none.
	Solver, Replicate string
	LocalityWait      time.Duration
	// Holds tells that the external files are on this site's storage element.
	Holds bool
}

// Config describes a run.
type Config struct {
	Workload *trace.Workload
	Sites    []Site
	// Rank is the ranking policy, or an expression, of all tasks.
	Rank string
	// Background is how often each node's load is drawn anew, uniformly from 0
	// to 100 %; 0 is no load.
	Background time.Duration
	// Noticed is how long after a node's failure its site knows.
	Noticed  time.Duration
	Seed     uint64
	KeepBars bool
	// Limit ends a run that does not end by itself, in virtual time.
	Limit time.Duration
}

// DefaultNode is a node with 4 slots, a 20 GiB cache and a 1 Gb/s card.
func DefaultNode() Node {
	return Node{Speed: 1, Slots: 4, Cores: 4, Memory: 16 * task.GiB, Cache: 20 * task.GiB, Bandwidth: 125e6}
}

// DefaultSite is a site without nodes, a storage element of 4 Gb/s and a wide
// link of 1 Gb/s, holding the external files.
func DefaultSite(name task.Site) Site {
	return Site{
		Name: name, StorageBandwidth: 500e6, WideBandwidth: 125e6, Latency: time.Millisecond / 4, QueueLatency: 10 * time.Millisecond, Holds: true,
	}
}

func (c *Config) check() error {
	if c.Workload == nil || len(c.Workload.Tasks) == 0 {
		return fmt.Errorf("the workload has no tasks")
	}
	holds := false
	for _, site := range c.Sites {
		holds = holds || site.Holds
		if len(site.Nodes) == 0 {
			return fmt.Errorf("site %s has no nodes", site.Name)
		}
		if site.StorageBandwidth <= 0 || site.WideBandwidth <= 0 {
			return fmt.Errorf("site %s: bandwidths must be above 0", site.Name)
		}
		for i, node := range site.Nodes {
			if node.Speed <= 0 || node.Slots < 1 || node.Cores < 1 || node.Memory <= 0 || node.Cache <= 0 || node.Bandwidth <= 0 {
				return fmt.Errorf("site %s, node %d: speed, slots, cores, memory, cache and bandwidth must be above 0", site.Name, i)
			}
		}
	}
	if !holds {
		return fmt.Errorf("no site's storage element holds the external files")
	}
	for i := range c.Workload.Tasks {
		if err := c.fits(&c.Workload.Tasks[i]); err != nil {
			return err
		}
	}
	return nil
}

// fits tells what of a task is too large for every node: it would wait for ever.
func (c *Config) fits(t *trace.Task) error {
	var reads task.Bytes
	for _, f := range t.Inputs {
		reads += max(0, c.Workload.Files[f].Size)
	}
	var cores int
	var memory, cache task.Bytes // the most of nodes that have enough of those before
	for _, site := range c.Sites {
		for _, node := range site.Nodes {
			if cores = max(cores, node.Cores); node.Cores < t.Cores {
				continue
			}
			if memory = max(memory, node.Memory); node.Memory < t.Memory {
				continue
			}
			cache = max(cache, node.Cache)
		}
	}
	switch {
	case t.Cores > cores:
		return fmt.Errorf("task %s needs %d cores, no node has more than %d: give nodes more cores", t.Name, t.Cores, cores)
	case t.Memory > memory:
		return fmt.Errorf("task %s needs %s of memory, no node with its cores has more than %s: give nodes more memory", t.Name, t.Memory, memory)
	case reads > cache:
		return fmt.Errorf("task %s reads %s, no node that has room for it has a cache of more than %s: give nodes larger caches", t.Name, reads, cache)
	}
	return nil
}
