package experiment

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/papers/coadd"
	"github.com/pilotage-grid/pilotage/papers/worksites"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// Options001 say how much of the experiment of 001 is run.
type Options001 struct {
	// Part divides the workload and the capacities: 1 for the paper's 6,000
	// tasks, 4 for a quick look.
	Part int
	// Topologies of the paper's five.
	Topologies int
	Effort
}

// policies001 are the algorithms of the paper (001, section 4.3), in its order.
var policies001 = []string{"storage_affinity", "overlap", "rest", "combined", "rest.2", "combined.2"}

// lab001 runs the experiment of 001.
type lab001 struct {
	Options001
	shape      coadd.Shape
	bag        *coadd.Bag
	shuffled   *coadd.Bag
	disordered *coadd.Bag // the same tasks in random order
	topologies []*topology
	jobs       []job001
	results    map[job001]*worksites.Result
}

// job001 is one run.
type job001 struct {
	setting
	policy   string
	kind     bagKind
	topology int
}

// bagKind says which bag of tasks is run.
type bagKind uint8

const (
	inSkyOrder bagKind = iota
	disordered         // the same tasks, submitted in random order
	shuffled           // the same degrees, files drawn at random
)

func (k bagKind) String() string {
	return [...]string{"tasks in sky order", "tasks in random order", "files at random"}[k]
}

func newLab001(options Options001) *lab001 {
	l := &lab001{Options001: options, shape: coadd.Small(), results: make(map[job001]*worksites.Result)}
	l.shape.Columns /= l.Part
	l.shape.Files /= l.Part
	l.shape.Accesses /= l.Part
	l.bag = coadd.Generate(l.shape, 2006)
	l.shuffled = l.bag.Shuffled(2006)
	l.disordered = l.bag.Disordered(2006)
	for i := range l.Topologies {
		l.topologies = append(l.topologies, newTopology(i))
	}
	return l
}

func (l *lab001) workload(j job001) *trace.Workload {
	bag := map[bagKind]*coadd.Bag{inSkyOrder: l.bag, disordered: l.disordered, shuffled: l.shuffled}[j.kind]
	return bag.Workload(task.Bytes(j.megabytes*1e6), time.Duration(j.cost*float64(time.Second)))
}

// want plans runs on every topology.
func (l *lab001) want(s setting, kind bagKind, policies ...string) {
	s.capacity /= l.Part
	for _, policy := range policies {
		for t := range l.topologies {
			j := job001{setting: s, policy: policy, kind: kind, topology: t}
			if _, known := l.results[j]; !known {
				l.results[j] = nil
				l.jobs = append(l.jobs, j)
			}
		}
	}
}

// run carries out what was planned.
func (l *lab001) run() error {
	results := make([]*worksites.Result, len(l.jobs))
	err := l.each(len(l.jobs), func(i int) error {
		j := l.jobs[i]
		config := j.config(l.topologies[j.topology], l.workload(j), j.topology)
		scheduler, err := worksites.NewScheduler(&config, j.policy, uint64(j.topology))
		if err != nil {
			return err
		}
		if results[i], err = worksites.Run(config, scheduler); err != nil {
			return fmt.Errorf("policy %s: %w", j.policy, err)
		}
		return nil
	})
	for i, j := range l.jobs {
		l.results[j] = results[i]
	}
	return err
}

// mean of something over the topologies, with its spread.
func (l *lab001) mean(s setting, kind bagKind, policy string, of func(*worksites.Result) float64) (mean, spread float64) {
	s.capacity /= l.Part
	values := make([]float64, 0, len(l.topologies))
	for t := range l.topologies {
		values = append(values, of(l.results[job001{setting: s, policy: policy, kind: kind, topology: t}]))
	}
	return MeanOf(values)
}

// What the figures show of a run.
func days(r *worksites.Result) float64        { return r.Makespan.Hours() / 24 }
func transfers(r *worksites.Result) float64   { return float64(r.Transfers) }
func utilisation(r *worksites.Result) float64 { return r.Utilisation }
func share(r *worksites.Result) float64       { return r.TransferShare }
func perWorker(r *worksites.Result) float64   { return float64(r.Transfers) / float64(len(r.Workers)) }

func waitingHours(r *worksites.Result) float64 {
	sum := time.Duration(0)
	for _, w := range r.Workers {
		sum += w.Waiting
	}
	return sum.Hours() / float64(len(r.Workers))
}

func transferHours(r *worksites.Result) float64 {
	sum := time.Duration(0)
	for _, w := range r.Workers {
		sum += w.Transfer
	}
	return sum.Hours() / float64(len(r.Workers))
}
