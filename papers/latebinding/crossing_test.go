package latebinding

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/bench"
	"github.com/pilotage-grid/pilotage/papers/experiment"
)

// results of a queue that serves so many tasks a second centrally.
func crossed(c Crossing, perSecond, rounds float64) [][]bench.OverlayResult {
	results := make([][]bench.OverlayResult, len(manners))
	for i := range manners {
		for _, pilots := range c.Pilots {
			r := bench.OverlayResult{OverlayRun: bench.OverlayRun{Pilots: pilots, Tasks: pilots * c.PerPilot}}
			r.Makespan = c.TaskTime.Seconds() * float64(c.PerPilot)
			r.SlotChange.Mean, r.QueueCPU = rounds, 0.1*c.Share*r.Makespan
			if i == byQueue {
				r.Makespan = max(r.Makespan, float64(r.Tasks)/perSecond)
				r.SlotChange.Mean = 0.001 + (r.Makespan-c.TaskTime.Seconds()*float64(c.PerPilot))/float64(c.PerPilot)
				r.QueueCPU = c.Share * float64(r.Tasks) / perSecond
			}
			results[i] = append(results[i], r)
		}
	}
	return results
}

func TestCrossingIsWhereTheQueueIsFull(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		c := Crossing{PerPilot: 2 + random.IntN(5), TaskTime: time.Duration(1+random.IntN(5)) * time.Second, Share: 0.1 + 0.9*random.Float64()}
		for pilots := 10; pilots <= 640; pilots *= 2 {
			c.Pilots = append(c.Pilots, pilots)
		}
		perSecond, rounds := 5+100*random.Float64(), 0.05+random.Float64()
		before, from := c.crossing(crossed(c, perSecond, rounds))
		full := (c.TaskTime.Seconds() + rounds - 0.001) * perSecond // pilots whose delay is that of rounds
		if before > 0 && float64(before) > full+1e-6 || from > 0 && float64(from) < full-1e-6 || before == 0 && full > 10 || from == 0 && full < 640 {
			t.Fatalf("seed %d: between %d and %d, want %.1f", seed, before, from, full)
		}
	}
}

func TestCrossingsClaims(t *testing.T) {
	c := Crossing{Pilots: []int{25, 400}, PerPilot: 4, TaskTime: 4 * time.Second, Share: 0.2}
	for _, f := range c.report(crossed(c, 25, 0.2)).Findings {
		if f.Same != experiment.Yes {
			t.Errorf("%s: %s: %s", f.Claim, f.Ours, f.Same)
		}
	}
	report := c.report(crossed(c, 1e6, 0.2)) // of a queue that is never full
	if f := report.Findings[1]; f.Same != experiment.No || !strings.Contains(f.Ours, "not in these") {
		t.Errorf("%s: %s: %s", f.Claim, f.Ours, f.Same)
	}
	if f := report.Findings[2]; f.Same != experiment.No {
		t.Errorf("%s: %s: %s", f.Claim, f.Ours, f.Same)
	}
	if len(report.Figures) != 3 || len(report.Figures[0].Series) != 3 || len(report.Tables[0].Rows) != 6 {
		t.Errorf("%d figures, %d rows", len(report.Figures), len(report.Tables[0].Rows))
	}
}

func TestCrossingValidate(t *testing.T) {
	good := Crossing{Pilots: []int{5, 10}, PerPilot: 2, TaskTime: time.Second, Share: 0.5, Transport: bench.TransportLight}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Crossing){
		"one size": func(c *Crossing) { c.Pilots = []int{5} }, "falling": func(c *Crossing) { c.Pilots = []int{10, 5} },
		"no share": func(c *Crossing) { c.Share = 0 }, "two processors": func(c *Crossing) { c.Share = 2 }, "one task": func(c *Crossing) { c.PerPilot = 1 },
	} {
		c := good
		spoil(&c)
		if c.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
