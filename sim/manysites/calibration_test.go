package manysites_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/sim/grid"
	"github.com/pilotage-grid/pilotage/sim/manysites"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// figures are what both simulators tell of a run.
type figures struct {
	makespan, delay float64 // seconds; delay is the mean between two payloads of a slot
	occupation      float64
	requests        float64 // of masters, a task
}

// TestModelAgainstProductionCores plays the same bags of tasks with the model of
// a site and with the production cores of masters and workers.
func TestModelAgainstProductionCores(t *testing.T) {
	for _, c := range []struct {
		name    string
		sites   int
		pilots  int
		prefill int
		period  time.Duration
	}{
		{"event-driven, prefilled", 2, 50, 1, 0},
		{"event-driven, nothing early", 1, 100, 0, 0},
		{"rounds every 20 s, nothing early", 2, 50, 0, 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := manysites.DefaultConfig()
			config.Sites, config.Pilots, config.Tasks, config.Workflow = c.sites, c.pilots, 5*c.sites*c.pilots, 5*c.sites*c.pilots
			config.Usual, config.Prefill, config.RoundEvery = 60*time.Second, c.prefill, c.period
			config.Service = manysites.Service{}
			config.Seed = 1
			modelled, produced := model(t, config), production(t, config)
			t.Logf("model %+v, production cores %+v", modelled, produced)
			compare(t, "makespan", modelled.makespan, produced.makespan, .06, 0)
			compare(t, "occupation", modelled.occupation, produced.occupation, .05, 0)
			compare(t, "requests per task", modelled.requests, produced.requests, .15, 0)
			compare(t, "mean delay", modelled.delay, produced.delay, .15, .01)
		})
	}
}

func compare(t *testing.T, what string, a, b, part, least float64) {
	t.Helper()
	if math.Abs(a-b) > max(part*b, least) {
		t.Errorf("%s: the model says %.4g, the production cores %.4g", what, a, b)
	}
}

func model(t *testing.T, config manysites.Config) figures {
	t.Helper()
	r, err := manysites.Run(config)
	if err != nil {
		t.Fatal(err)
	}
	return figures{r.Makespan.Seconds(), r.MeanDelay().Seconds(), r.Occupation, float64(r.Requests) / float64(config.Tasks)}
}

func production(t *testing.T, config manysites.Config) figures {
	t.Helper()
	random := sim.Random(config.Seed, "bag")
	w := &trace.Workload{Name: "bag"}
	for i := range config.Tasks {
		lasts := time.Duration(float64(config.Usual) * (0.7 + 0.6*random.Float64()))
		w.Tasks = append(w.Tasks, trace.Task{Name: fmt.Sprintf("t%05d", i), Runtime: lasts, Cores: 1})
	}
	played := grid.Config{Workload: w, Noticed: time.Second, Seed: config.Seed, KeepBars: true}
	for i := range config.Sites {
		site := grid.DefaultSite(task.Site(fmt.Sprintf("site%d", i)))
		site.Latency, site.QueueLatency, site.RoundEvery, site.Prefill = config.Latency, config.QueueLatency, config.RoundEvery, config.Prefill
		if config.Prefill == 0 {
			site.Prefill = -1
		}
		for range config.Pilots {
			node := grid.DefaultNode()
			node.Slots, node.Cores = 1, 1
			site.Nodes = append(site.Nodes, node)
		}
		played.Sites = append(played.Sites, site)
	}
	r, err := grid.Run(played)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(map[int]time.Duration)
	var delays time.Duration
	count := 0
	for _, bar := range r.Bars {
		if bar.Kind != sim.Computing {
			continue
		}
		if before, any := ended[bar.Row]; any {
			delays += bar.From - before
			count++
		}
		ended[bar.Row] = bar.To
	}
	registrations := config.Sites * config.Pilots
	return figures{
		r.Makespan.Seconds(), delays.Seconds() / float64(count), r.Utilisation, float64(r.Requests-registrations) / float64(config.Tasks),
	}
}
