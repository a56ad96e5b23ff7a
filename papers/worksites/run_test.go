package worksites_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/papers/coadd"
	"github.com/pilotage-grid/pilotage/papers/dispatch"
	"github.com/pilotage-grid/pilotage/papers/worksites"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// tiny is a sky of two columns with 30 fields each.
func tiny() *trace.Workload {
	shape := coadd.Small()
	shape.Columns, shape.Fields, shape.Files, shape.Accesses, shape.Least, shape.Most = 2, 30, 480, 3600, 20, 101
	return coadd.Generate(shape, 1).Workload(1_000_000, time.Second)
}

func sites(count, workers, capacity int) []worksites.Site {
	list := make([]worksites.Site, count)
	for i := range list {
		list[i] = worksites.Site{Bandwidth: 1e6 * float64(i+1), Latency: 10 * time.Millisecond, Capacity: capacity}
		for w := range workers {
			list[i].Speeds = append(list[i].Speeds, 1+float64(w)/4)
		}
	}
	return list
}

func play(t *testing.T, config worksites.Config, metric string, choose int) *worksites.Result {
	t.Helper()
	r, err := worksites.Run(config, newNaive(config.Workload, config.SiteOf(), metric, choose))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// One worker, one task after the other: the makespan is the sum of latencies,
// transfers and computing.
func TestMakespanIsTheSumOfItsParts(t *testing.T) {
	w := &trace.Workload{Name: "two", Files: []trace.File{{Name: "a", Size: 2_000_000, Producer: trace.External}, {Name: "b", Size: 1_000_000, Producer: trace.External}}}
	w.Tasks = []trace.Task{
		{Name: "t0", Inputs: []int32{0}, Runtime: 10 * time.Second},
		{Name: "t1", Inputs: []int32{0, 1}, Runtime: 20 * time.Second},
	}
	one := []worksites.Site{{Speeds: []float64{2}, Bandwidth: 1e6, Latency: time.Second, Capacity: 10}}
	r := play(t, worksites.Config{Workload: w, Sites: one}, "fifo", 1)
	// Twice: ask and be answered 2 s, reach the file server and back 2 s; then 3 MB and 15 s of work.
	if want := 26 * time.Second; r.Makespan < want || r.Makespan > want+time.Millisecond {
		t.Errorf("makespan %s, want %s", r.Makespan, want)
	}
	if r.Transfers != 2 || r.Hits != 1 || r.Bytes != 3_000_000 || r.Workers[0].Computing != 15*time.Second {
		t.Errorf("%+v", r)
	}
}

// Requests of a site's workers are served one after the other.
func TestDataServerServesOneRequestAtATime(t *testing.T) {
	w := &trace.Workload{Name: "three"}
	for i := range 3 {
		w.Files = append(w.Files, trace.File{Name: "f", Size: 1_000_000, Producer: trace.External})
		w.Tasks = append(w.Tasks, trace.Task{Name: "t", Inputs: []int32{int32(i)}, Runtime: time.Second})
	}
	site := []worksites.Site{{Speeds: []float64{1, 1, 1}, Bandwidth: 1e6, Capacity: 10}}
	r := play(t, worksites.Config{Workload: w, Sites: site, KeepBars: true}, "fifo", 1)
	waited := time.Duration(0)
	for _, one := range r.Workers {
		waited += one.Waiting
	}
	if r.Makespan.Round(time.Millisecond) != 4*time.Second || waited.Round(time.Millisecond) != 3*time.Second || len(r.Bars) < 8 {
		t.Errorf("makespan %s, waited %s, %d bars", r.Makespan, waited, len(r.Bars))
	}
}

func TestSameSeedSameHash(t *testing.T) {
	config := worksites.Config{Workload: tiny(), Sites: sites(3, 2, 101), Background: 5 * time.Minute, Seed: 1}
	first, second := play(t, config, "rest", 2), play(t, config, "rest", 2)
	if first.Hash != second.Hash {
		t.Errorf("%s, then %s", first.Hash, second.Hash)
	}
	if other := play(t, config, "rest", 1); other.Hash == first.Hash {
		t.Error("another policy gives the same run")
	}
	config.Seed = 2
	if other := play(t, config, "rest", 2); other.Hash == first.Hash {
		t.Error("another background load gives the same run")
	}
}

// Every task is done once, and every read is a hit or a transfer.
func TestSumsAddUp(t *testing.T) {
	w := tiny()
	reads := 0
	for _, one := range w.Tasks {
		reads += len(one.Inputs)
	}
	for _, metric := range []string{"fifo", "overlap", "rest", "combined"} {
		config := worksites.Config{Workload: w, Sites: sites(3, 2, 110), ServerBandwidth: 3e6}
		r := play(t, config, metric, 1)
		tasks := 0
		for _, one := range r.Workers {
			tasks += one.Tasks
		}
		if tasks != len(w.Tasks) || r.Hits+r.Transfers != reads || r.Utilisation <= 0 || r.Utilisation > 1 || r.TransferShare > 1 {
			t.Errorf("%s: %d tasks, %d hits, %d transfers of %d reads, %+v", metric, tasks, r.Hits, r.Transfers, reads, r)
		}
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	for want, change := range map[string]func(*worksites.Config){
		"60 tasks on 0 sites":                 func(c *worksites.Config) { c.Sites = nil },
		"site 1 has no workers":               func(c *worksites.Config) { c.Sites[1].Speeds = nil },
		"site 0 keeps 5 files":                func(c *worksites.Config) { c.Sites[0].Capacity = 5 },
		"reads what another task makes":       func(c *worksites.Config) { c.Workload.Files[0].Producer = 3 },
		"site 0 has a worker of speed -1":     func(c *worksites.Config) { c.Sites[0].Speeds[1] = -1 },
		"site 2 has a bandwidth of 0 bytes":   func(c *worksites.Config) { c.Sites[2].Bandwidth = 0 },
		"the scheduler gives nothing out, bu": func(c *worksites.Config) { c.Seed = 99 },
	} {
		config := worksites.Config{Workload: tiny(), Sites: sites(3, 2, 200)}
		change(&config)
		scheduler := newNaive(config.Workload, []int{0, 0, 1, 1, 2, 2}, "fifo", 1)
		if config.Seed == 99 {
			clear(scheduler.open)
		}
		if _, err := worksites.Run(config, scheduler); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// The product's schedulers decide as the formulas of the paper do, word by word.
func TestProductSchedulersDecideAsThePaperSays(t *testing.T) {
	for _, metric := range []string{"overlap", "rest", "combined"} {
		config := worksites.Config{Workload: tiny(), Sites: sites(3, 2, 150), Background: 5 * time.Minute, Seed: 3}
		policy, err := dispatch.ParsePolicy(metric)
		if err != nil {
			t.Fatal(err)
		}
		r, err := worksites.Run(config, worksites.Dispatch(&config, dispatch.NewWorkerCentric(policy, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if want := play(t, config, metric, 1); r.Hash != want.Hash {
			t.Errorf("%s: %d transfers in %s, by the formulas %d in %s", metric, r.Transfers, r.Makespan, want.Transfers, want.Makespan)
		}
	}
	config := worksites.Config{Workload: tiny(), Sites: sites(3, 2, 150)}
	r, err := worksites.Run(config, worksites.Dispatch(&config, &dispatch.Workqueue{}))
	if want := play(t, config, "fifo", 1); err != nil || r.Hash != want.Hash {
		t.Errorf("workqueue: %v, %+v", err, r)
	}
}

// Idle workers get copies; the first to end wins, the others are cancelled and
// their computing is wasted.
func TestStorageAffinityCancelsLosers(t *testing.T) {
	config := worksites.Config{Workload: tiny(), Sites: sites(4, 2, 150)}
	config.Sites[0].Speeds = []float64{0.01, 5}
	r, err := worksites.Run(config, worksites.StorageAffinity(&config, false))
	if err != nil {
		t.Fatal(err)
	}
	tasks, wasted := 0, time.Duration(0)
	for _, one := range r.Workers {
		tasks, wasted = tasks+one.Tasks, wasted+one.Wasted
	}
	if tasks != 60 || wasted == 0 {
		t.Errorf("%d tasks ended, %s wasted", tasks, wasted)
	}
	if _, err := worksites.NewScheduler(&config, "fastest", 1); err == nil || !strings.Contains(err.Error(), "storage_affinity") {
		t.Error(err)
	}
}

func BenchmarkCoadd6000(b *testing.B) {
	bag := coadd.Generate(coadd.Small(), 2006)
	w := bag.Workload(25_000_000, 1000*time.Second)
	for _, name := range []string{"workqueue", "storage_affinity", "overlap", "rest", "combined", "rest.2", "combined.2"} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				config := worksites.Config{Workload: w, Background: 5 * time.Minute, Seed: 1}
				for i := range 10 {
					config.Sites = append(config.Sites, worksites.Site{Speeds: []float64{16 + 2*float64(i)}, Bandwidth: 4e6, Latency: 20 * time.Millisecond, Capacity: 6000})
				}
				scheduler, err := worksites.NewScheduler(&config, name, 1)
				if err != nil {
					b.Fatal(err)
				}
				r, err := worksites.Run(config, scheduler)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(r.Makespan.Hours()/24, "days")
				b.ReportMetric(float64(r.Transfers), "transfers")
			}
		})
	}
}
