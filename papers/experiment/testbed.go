package experiment

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/papers/cluster"
)

// The testbed of 000 and 003: four nodes with Gfarm and Torque (000, table II).
const (
	testbedNodes = 4
	// One slot a node: 003 counts 4 of 40 tasks as running on 4 nodes.
	testbedSlots = 1
	testbedCPUs  = 16
	// localSpeed is what 000's tasks read with when all files are local (V-A).
	localSpeed = 2803.61e6
	// whileServing: 000 saw about 1,400 MB/s where remote tasks were in
	// contention; 003 (5.1) gives up to 50 % for access and copies alike.
	whileServing = 0.5
	// cardSpeed is what TCP carries over Gigabit Ethernet.
	cardSpeed = 117e6
	// startCost of a task is not given; with it readgf under DAD takes the
	// paper's 5.63 s, on average over the orders of tasks.
	startCost = 300 * time.Millisecond
)

func testbed() cluster.Config {
	return cluster.Config{Nodes: testbedNodes, Hardware: cluster.Hardware{
		Slots: testbedSlots, CPUs: testbedCPUs, Local: localSpeed, WhileServing: whileServing, Card: cardSpeed, Start: startCost,
	}}
}

// choicesOfTestbed names what 000 and 003 do not give about their nodes.
func choicesOfTestbed() []string {
	return []string{
		"One slot a node (003 counts 4 running tasks on 4 nodes). Local files are read at 2,803.61 MB/s, 000's own mean where all is local, so from the page cache, and at half of it while the node serves a remote reader or a copy. A network card carries 117 MB/s each way, shared fairly.",
		"A remote reader takes the holder that serves the fewest. Reading makes no copy.",
		fmt.Sprintf("A task needs %s from its slot to its first read: with it readgf under DAD takes about the paper's 5.63 s. Nothing else is fitted for these two.", startCost),
		"The load average is that of Linux over a minute, by 16 CPUs. Local means a Score below 0.5 (lShold).",
	}
}

// scheduling is who decides about tasks and copies.
type scheduling struct {
	name                   string
	solver, rank, replicas string
	keeps                  bool // what nodes read, as pilots' caches do
}

// torque is the batch system's own scheduler.
var torque = scheduling{name: "FIFO", solver: cluster.FIFO}

// dad is 000's dispatch with beta and Delay (wLimit).
func dad(beta float64, delay int) scheduling {
	return scheduling{
		name:   fmt.Sprintf("DAD, beta %g, Delay %d", beta, delay),
		solver: fmt.Sprintf("dad(0.5,%d)", delay), rank: fmt.Sprintf("dad(%g)", beta),
	}
}

var (
	// best is 000's best case.
	best = dad(0.8, 2)
	// greedy is our default solver with 000's rank.
	greedy = scheduling{name: "greedy (ours), beta 0.8", solver: "greedy", rank: "dad(0.8)"}
)

func (s scheduling) with(replicas string) scheduling {
	s.replicas = replicas
	return s
}

func (s scheduling) named(name string) scheduling {
	s.name = name
	return s
}

// Options say how much of an experiment is run.
type Options struct {
	// Seeds is how many random orders of tasks are averaged; 0: as many as
	// the page of the paper has.
	Seeds int
	Effort
}

// sample are runs of one setting, by seed.
type sample []*cluster.Result

// play runs a setting with every seed.
func (o Options) play(s scheduling, config func(seed uint64) cluster.Config) (sample, error) {
	results := make(sample, o.Seeds)
	err := o.each(o.Seeds, func(i int) (err error) {
		c := config(uint64(i))
		c.Solver, c.Rank, c.Replicas, c.KeepReads = s.solver, s.rank, s.replicas, s.keeps
		if results[i], err = cluster.Run(c); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		return nil
	})
	return results, err
}

func (s sample) mean(of func(*cluster.Result) float64) (mean, spread float64) {
	values := make([]float64, 0, len(s))
	for _, r := range s {
		values = append(values, of(r))
	}
	return MeanOf(values)
}

func (s sample) average(of func(*cluster.Result) float64) float64 {
	mean, _ := s.mean(of)
	return mean
}

func seconds(r *cluster.Result) float64    { return r.Makespan.Seconds() }
func megabytes(r *cluster.Result) float64  { return r.Throughput() / 1e6 }
func localTasks(r *cluster.Result) float64 { return float64(r.Local()) }
