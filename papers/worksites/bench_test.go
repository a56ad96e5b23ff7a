package worksites_test

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/papers/coadd"
	"github.com/pilotage-grid/pilotage/papers/worksites"
	"github.com/pilotage-grid/pilotage/sim/grid"
	"github.com/pilotage-grid/pilotage/task"
)

// BenchmarkCoadd plays the first 100 tasks of the Coadd-like bag, 78 files each,
// on a site of 16 slots in detail. x-light is its time against that of the same
// on paper 001's grid.
func BenchmarkCoadd(b *testing.B) {
	bag := coadd.Generate(coadd.Small(), 2006)
	bag.Tasks = bag.Tasks[:100]
	workload := bag.Workload(25_000_000, 40*time.Second)
	site := grid.DefaultSite("siteA")
	light := worksites.Site{Bandwidth: site.StorageBandwidth, Latency: site.Latency, Capacity: 4 * int(20*task.GiB) / 25_000_000}
	for range 4 {
		site.Nodes = append(site.Nodes, grid.DefaultNode())
		light.Speeds = append(light.Speeds, 1, 1, 1, 1)
	}
	baseline, events := time.Duration(0), uint64(0)
	for b.Loop() {
		b.StopTimer()
		began := time.Now()
		config := worksites.Config{Workload: workload, Sites: []worksites.Site{light}, Seed: 1}
		scheduler, err := worksites.NewScheduler(&config, "overlap", 1)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := worksites.Run(config, scheduler); err != nil {
			b.Fatal(err)
		}
		baseline += time.Since(began)
		b.StartTimer()
		r, err := grid.Run(grid.Config{Workload: workload, Sites: []grid.Site{site}, Rank: "overlap", Seed: 1, Noticed: 3 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		events += r.Events
	}
	b.ReportMetric(b.Elapsed().Seconds()/baseline.Seconds(), "x-light")
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
