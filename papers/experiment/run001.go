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
	// Table4 plays only what table 4 shows, for many topologies and seeds.
	Table4 bool
	// Seeds is how many bags of tasks are drawn; 0 is 1.
	Seeds int
	Effort
}

// policies001 are the algorithms of the paper (001, section 4.3), in its order.
var policies001 = []string{"storage_affinity", "overlap", "rest", "combined", "rest.2", "combined.2"}

// lab001 runs the experiment of 001.
type lab001 struct {
	Options001
	shape      coadd.Shape
	bags       []map[bagKind]*coadd.Bag // by seed
	topologies []*topology
	jobs       []job001
	results    map[job001]*worksites.Result
}

// job001 is one run.
type job001 struct {
	setting
	policy   string
	kind     bagKind
	bag      int // its seed's place
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
	for i := range max(1, l.Seeds) {
		seed := uint64(2006 + i)
		bag := coadd.Generate(l.shape, seed)
		l.bags = append(l.bags, map[bagKind]*coadd.Bag{inSkyOrder: bag, disordered: bag.Disordered(seed), shuffled: bag.Shuffled(seed)})
	}
	for i := range l.Topologies {
		l.topologies = append(l.topologies, newTopology(i))
	}
	return l
}

func (l *lab001) workload(j job001) *trace.Workload {
	return l.bags[j.bag][j.kind].Workload(task.Bytes(j.megabytes*1e6), time.Duration(j.cost*float64(time.Second)))
}

// want plans runs on every topology, with every bag.
func (l *lab001) want(s setting, kind bagKind, policies ...string) {
	s.capacity /= l.Part
	for _, policy := range policies {
		for _, j := range l.runsOf(s, kind, policy) {
			if _, known := l.results[j]; !known {
				l.results[j] = nil
				l.jobs = append(l.jobs, j)
			}
		}
	}
}

func (l *lab001) runsOf(s setting, kind bagKind, policy string) (all []job001) {
	for bag := range l.bags {
		for t := range l.topologies {
			all = append(all, job001{setting: s, policy: policy, kind: kind, bag: bag, topology: t})
		}
	}
	return all
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

// mean of something over the topologies and bags, with its spread.
func (l *lab001) mean(s setting, kind bagKind, policy string, of func(*worksites.Result) float64) (mean, spread float64) {
	s.capacity /= l.Part
	var values []float64
	for _, j := range l.runsOf(s, kind, policy) {
		values = append(values, of(l.results[j]))
	}
	return MeanOf(values)
}

// What the figures show of a run.
func days(r *worksites.Result) float64        { return r.Makespan.Hours() / 24 }
func transfers(r *worksites.Result) float64   { return float64(r.Transfers) }
func utilisation(r *worksites.Result) float64 { return r.Utilisation }
func share(r *worksites.Result) float64       { return r.TransferShare }
func perWorker(r *worksites.Result) float64   { return float64(r.Transfers) / float64(len(r.Workers)) }

// Table 4 shows one site; here it is the first one of ten.
func firstSite(r *worksites.Result) []worksites.WorkerSums { return r.Workers[:len(r.Workers)/10] }

func waitingHours(r *worksites.Result) float64 {
	return hours(r, func(w *worksites.WorkerSums) time.Duration { return w.Waiting })
}

func transferHours(r *worksites.Result) float64 {
	return hours(r, func(w *worksites.WorkerSums) time.Duration { return w.Transfer })
}

// hours is the mean of something over the workers of the first site.
func hours(r *worksites.Result, of func(*worksites.WorkerSums) time.Duration) (mean float64) {
	site := firstSite(r)
	for i := range site {
		mean += of(&site[i]).Hours() / float64(len(site))
	}
	return mean
}

func siteTransfers(r *worksites.Result) (mean float64) {
	site := firstSite(r)
	for i := range site {
		mean += float64(site[i].Transfers) / float64(len(site))
	}
	return mean
}
