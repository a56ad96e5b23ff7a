package latebinding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/bench"
	"github.com/pilotage-grid/pilotage/papers/experiment"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/sim/chart"
)

// Crossing grows a testbed until central matching is worse than distributed: until
// the queue's processor is full. 004's queue was that slow on its own; ours gets a
// share of a processor, so that the pilots beside it on this machine do not come
// first.
type Crossing struct {
	bench.Setup
	Pilots    []int // that are tried, rising
	PerPilot  int   // tasks of each pilot
	TaskTime  time.Duration
	Share     float64 // of one processor, that the queue gets
	Transport bench.Transport
}

// manner is one of the ways in which tasks find pilots.
type manner struct {
	name   string
	mode   pb.SiteMode
	rounds bool // of the paper's period
	early  int  // tasks that a slot gets early
}

// Their places in manners.
const (
	byQueue = iota
	inRounds
	byEvents
)

var manners = []manner{
	{"centralized", pb.SiteMode_SITE_MODE_CENTRALIZED, false, 0},
	{"distributed, in rounds", pb.SiteMode_SITE_MODE_DISTRIBUTED, true, 0},
	{"distributed, our defaults", pb.SiteMode_SITE_MODE_DISTRIBUTED, false, 1},
}

// Validate tells what of the values makes no sense.
func (c Crossing) Validate() error {
	if len(c.Pilots) < 2 || !slices.IsSorted(c.Pilots) {
		return errors.New("give two numbers of pilots or more, the smallest first")
	}
	if c.Share <= 0 || c.PerPilot < 2 {
		return errors.New("the queue's share is above 0, and each pilot has two tasks or more")
	}
	for _, pilots := range c.Pilots {
		if err := c.run(manners[inRounds], pilots).Validate(); err != nil {
			return err
		}
	}
	return nil
}

func (c Crossing) run(m manner, pilots int) bench.Overlay {
	o := bench.Overlay{
		Setup: c.Setup, Pilots: pilots, Sites: 1, Tasks: pilots * c.PerPilot, Workflow: bench.Serial, Mode: m.mode, Transport: c.Transport,
		TaskTime: c.TaskTime, Prefill: m.early, Seed: 1, FileSize: 1, QueueShare: c.Share,
	}
	if m.rounds {
		o.RoundPeriod = scaled(roundPeriod, c.TaskTime)
	}
	return o
}

// Run carries out all runs, the smallest testbed first.
func (c Crossing) Run(ctx context.Context) (*experiment.Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	results := make([][]bench.OverlayResult, len(manners))
	for _, pilots := range c.Pilots {
		for i, m := range manners {
			if c.Progress != nil {
				c.Progress("%s, %d pilots", m.name, pilots)
			}
			r, err := c.run(m, pilots).Run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s, %d pilots: %w", m.name, pilots, err)
			}
			results[i] = append(results[i], r)
		}
	}
	return c.report(results), nil
}

// busy is how much of the processor time that the queue could have it used.
func (c Crossing) busy(r *bench.OverlayResult) float64 { return r.QueueCPU / (c.Share * r.Makespan) }

func delayOf(r *bench.OverlayResult) float64 { return r.SlotChange.Mean }

func (c Crossing) report(results [][]bench.OverlayResult) *experiment.Report {
	period := scaled(roundPeriod, c.TaskTime)
	return &experiment.Report{
		Paper: "004", Title: "Central and distributed matching on a growing testbed",
		Choices: []string{
			fmt.Sprintf("One site, a serial workflow of %d tasks a pilot that sleep %s in the mean (004's 198 s by %.0f, and so its period of 20 s is %s); one run of each.",
				c.PerPilot, c.TaskTime, taskTime.Seconds()/c.TaskTime.Seconds(), period.Round(time.Millisecond)),
			fmt.Sprintf("The queue is a process with its database on disk and gets %.0f %% of one processor, and is stopped whenever it has used more. Pilots are whole and share one process; they send the product's messages only.", 100*c.Share),
		},
		Figures: []*chart.Figure{
			c.figure(results, "requests", "requests to the queue per task", func(r *bench.OverlayResult) float64 { return r.RequestsBesideJoining }),
			c.figure(results, "cpu", "queue's processor time by what it may use", c.busy),
			c.figure(results, "delay", "mean delay of a slot (s)", delayOf),
		},
		Tables:   []*chart.Table{c.table(results)},
		Findings: c.findings(results),
	}
}

func (c Crossing) figure(results [][]bench.OverlayResult, name, what string, of func(*bench.OverlayResult) float64) *chart.Figure {
	f := &chart.Figure{Name: "crossing-" + name, Title: fmt.Sprintf("More pilots for %g of a processor", c.Share), X: "pilots", Y: what, LogY: name == "delay"}
	for i, m := range manners {
		s := chart.Series{Name: m.name}
		for at := range results[i] {
			r := &results[i][at]
			s.Points = append(s.Points, chart.Point{X: float64(r.Pilots), Y: of(r)})
		}
		f.Series = append(f.Series, s)
	}
	return f
}

func (c Crossing) table(results [][]bench.OverlayResult) *chart.Table {
	t := &chart.Table{Name: "crossing-runs", Title: "All runs", Header: []string{
		"pilots", "matching", "requests per task", "queue CPU ms per task", "queue busy", "delay mean s", "delay p99 s", "makespan s", "lost", "load before", "load after",
	}}
	for at := range c.Pilots {
		for i, m := range manners {
			r := &results[i][at]
			t.Rows = append(t.Rows, []string{
				fmt.Sprint(r.Pilots), m.name, short(r.RequestsBesideJoining), short(1000 * r.QueueCPU / float64(r.Tasks)), short(c.busy(r)),
				short(delayOf(r)), short(r.SlotChange.P99), short(r.Makespan), fmt.Sprint(r.LostTasks), r.LoadBefore, r.LoadAfter,
			})
		}
	}
	return t
}

// crossing is the smallest testbed from which on central matching leaves slots free
// for longer than rounds do, and the one before; 0 is none.
func (c Crossing) crossing(results [][]bench.OverlayResult) (before, from int) {
	for at, pilots := range slices.Backward(c.Pilots) {
		if delayOf(&results[byQueue][at]) <= delayOf(&results[inRounds][at]) {
			return pilots, from
		}
		from = pilots
	}
	return 0, from
}

func (c Crossing) findings(results [][]bench.OverlayResult) []experiment.Finding {
	last := len(c.Pilots) - 1
	at := func(i, size int) *bench.OverlayResult { return &results[i][size] }
	delays := func(size int) string {
		return fmt.Sprintf("%d pilots: centralized %.3f s, rounds %.3f s", c.Pilots[size], delayOf(at(byQueue, size)), delayOf(at(inRounds, size)))
	}
	before, from := c.crossing(results)
	where := fmt.Sprintf("between %d and %d pilots", before, from)
	if before == 0 || from == 0 {
		where = "not in these testbeds"
	}
	return []experiment.Finding{
		{
			Claim: "central matching: the delay at a small testbed is below that of rounds (Fig. 3)", Paper: "below",
			Ours: delays(0), Same: experiment.More(delayOf(at(inRounds, 0)), delayOf(at(byQueue, 0))),
		},
		{
			Claim: "... and at a large one above it: they cross (Fig. 3)", Paper: "much higher",
			Ours: delays(last) + "; they cross " + where, Same: experiment.Much(delayOf(at(byQueue, last)), delayOf(at(inRounds, last))),
		},
		{
			Claim: "the central queue is the bottleneck then (section IV)", Paper: "the bottleneck",
			Ours: fmt.Sprintf("its processor is %.0f %% busy; for distributed matching of as many pilots %.0f %%, with our defaults %.0f %%",
				100*c.busy(at(byQueue, last)), 100*c.busy(at(inRounds, last)), 100*c.busy(at(byEvents, last))),
			Same: experiment.Alike(c.busy(at(byQueue, last)), 1).And(experiment.Much(c.busy(at(byQueue, last)), c.busy(at(inRounds, last)))),
		},
		{
			Claim: "distributed: the delay is constant as the testbed grows (Fig. 3)", Paper: "constant",
			Ours: delays(0) + "; " + delays(last), Same: experiment.Alike(delayOf(at(inRounds, last)), delayOf(at(inRounds, 0))),
		},
		{
			Claim: "distributed has the shortest turnaround at the largest testbed (Fig. 4)", Paper: "shortest",
			Ours: fmt.Sprintf("rounds %.1f s, our defaults %.1f s, centralized %.1f s", at(inRounds, last).Makespan, at(byEvents, last).Makespan, at(byQueue, last).Makespan),
			Same: experiment.More(at(byQueue, last).Makespan, at(inRounds, last).Makespan),
		},
	}
}
