package main

import (
	"fmt"

	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/sim/grid"
	"github.com/pilotage-grid/pilotage/sim/worksites"
	"github.com/pilotage-grid/pilotage/task"
)

// lightPolicies are compared unless others are named.
var lightPolicies = []string{"locality", "overlap", "rest", "combined", "combined.2", "storage_affinity", "workqueue"}

// lightRun plays a bag of tasks on package worksites' grid.
func lightRun(config grid.Config) (*grid.Result, error) {
	light, err := lightConfig(config)
	if err != nil {
		return nil, err
	}
	scheduler, err := worksites.NewScheduler(&light, config.Rank, config.Seed)
	if err != nil {
		return nil, err
	}
	result, err := worksites.Run(light, scheduler)
	if err != nil {
		return nil, err
	}
	out := &grid.Result{
		Makespan: result.Makespan, StorageReads: result.Transfers, StorageBytes: float64(result.Bytes), Evictions: result.Evictions,
		Utilisation: result.Utilisation, Requests: result.Requests, Hash: result.Hash, Events: result.Events, Bars: lightBars(&config, result.Bars),
	}
	out.Reads[task.SourcePeer].Files, out.Reads[task.SourceSE].Files = result.Hits, result.Transfers
	return out, nil
}

// lightConfig makes a worker of each slot, and one data server of the caches of
// a site, that keeps as many files as they have room for the largest.
func lightConfig(config grid.Config) (worksites.Config, error) {
	light := worksites.Config{Workload: config.Workload, Background: config.Background, Seed: config.Seed, KeepBars: config.KeepBars}
	largest := task.Bytes(1)
	for _, f := range config.Workload.Files {
		largest = max(largest, f.Size)
	}
	for _, t := range config.Workload.Tasks {
		if t.Cores > 1 {
			return light, fmt.Errorf("task %s needs %d cores: --light plays tasks of one core", t.Name, t.Cores)
		}
	}
	for _, s := range config.Sites {
		site := worksites.Site{Bandwidth: s.StorageBandwidth, Latency: s.Latency}
		room := task.Bytes(0)
		for _, n := range s.Nodes {
			if n.FailsAt > 0 {
				return light, fmt.Errorf("site %s: nodes do not fail with --light", s.Name)
			}
			for range n.Slots {
				site.Speeds = append(site.Speeds, n.Speed)
			}
			room += n.Cache
		}
		site.Capacity = int(min(room/largest, task.Bytes(len(config.Workload.Files))))
		light.Sites = append(light.Sites, site)
	}
	return light, nil
}

// lightBars are the bars with rows by node and slot.
func lightBars(config *grid.Config, bars []sim.Bar) []sim.Bar {
	var rows []int
	node := 0
	for _, s := range config.Sites {
		for _, n := range s.Nodes {
			for slot := range n.Slots {
				rows = append(rows, node*grid.RowsPerNode+slot)
			}
			node++
		}
	}
	for i := range bars {
		bars[i].Row = rows[bars[i].Row]
	}
	return bars
}
