package experiment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/pilotage-grid/pilotage/papers/worksites"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// bandwidths001 are mean and standard deviation of the bandwidth between a site
// and the file server in MB/s, for each of the paper's topologies (001, table 3).
var bandwidths001 = [...]struct{ mean, deviation float64 }{
	{4.418, 5.416}, {4.631, 6.734}, {3.858, 2.599}, {3.432, 1.432}, {3.932, 2.778},
}

// topology is one of the paper's five: 90 sites with up to 30 workers each.
type topology struct {
	bandwidth []float64 // bytes a second
	latency   []time.Duration
	speeds    [][]float64 // MFLOPS
}

const sites001, workers001 = 90, 30

func newTopology(number int) *topology {
	t := &topology{}
	random := sim.Random(2006, fmt.Sprintf("topology %d", number))
	given := bandwidths001[number]
	// A lognormal distribution has the heavy tail that a deviation above the
	// mean asks for.
	variance := math.Log(1 + given.deviation*given.deviation/given.mean/given.mean)
	location := math.Log(given.mean) - variance/2
	for range sites001 {
		t.bandwidth = append(t.bandwidth, 1e6*math.Exp(location+math.Sqrt(variance)*random.NormFloat64()))
		t.latency = append(t.latency, time.Duration(10+random.IntN(51))*time.Millisecond)
		speeds := make([]float64, workers001)
		for w := range speeds {
			speeds[w] = speed001(random)
		}
		t.speeds = append(t.speeds, speeds)
	}
	return t
}

// speed001 draws a worker's speed in MFLOPS: the machine of a random rank on a
// list of 500 whose speeds follow a power law, in GFLOPS, by 100.
func speed001(random *rand.Rand) float64 {
	rank := 1 + random.IntN(500)
	return 1645 * math.Pow(500/float64(rank), 0.79) / 100
}

// setting is what the experiments of 001 vary (001, table 1).
type setting struct {
	capacity   int     // of each data server, in files
	workers    int     // per site
	cost       float64 // MFLOP a file
	sites      int
	megabytes  float64 // a file
	background bool
	// server is what the file server's own link carries, which all sites share, in
	// MB/s; 0: each site has a way of its own.
	server float64
}

func defaults001() setting {
	return setting{capacity: 6000, workers: 1, cost: 1000, sites: 10, megabytes: 25, background: true}
}

// config puts a setting on a topology. Workers of speed 1 make 1 MFLOPS.
func (s setting) config(t *topology, bag *trace.Workload, number int) worksites.Config {
	config := worksites.Config{Workload: bag, Seed: uint64(number)}
	config.ServerBandwidth = 1e6 * s.server
	if s.background {
		config.Background = 5 * time.Minute
	}
	for i := range s.sites {
		config.Sites = append(config.Sites, worksites.Site{
			Speeds: t.speeds[i][:s.workers], Bandwidth: t.bandwidth[i], Latency: t.latency[i], Capacity: s.capacity,
		})
	}
	return config
}
