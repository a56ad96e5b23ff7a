package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/bench"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// benchPart is one bench of `bench all`.
type benchPart struct {
	Name   string `json:"bench"`
	Result any    `json:"result"`

	run func(context.Context) (result any, rows [][]string, err error)
}

func (a *benches) all() *cobra.Command {
	return &cobra.Command{
		Use:   "all",
		Short: "Measure everything shortly, and print one table with the goals",
		Long: `Runs a short form of every bench, one after the other, in less than ten minutes.
Only figures that have a goal are printed; --output json has all of them. Goals
that are for larger runs say so: pilotage bench NAME measures those.`,
		Args: asUsed,
		RunE: func(c *cobra.Command, _ []string) error {
			setup, err := a.setup()
			if err != nil {
				return err
			}
			parts := a.parts(setup)
			var rows [][]string
			for i := range parts {
				part := &parts[i]
				setup.Progress("%d of %d: %s", i+1, len(parts), part.Name)
				result, figures, err := part.run(c.Context())
				if err != nil {
					return fmt.Errorf("bench %s: %w", part.Name, err)
				}
				part.Result = result
				for _, row := range figures {
					if row[2] != "" {
						rows = append(rows, append([]string{part.Name}, row...))
					}
				}
			}
			return a.out.print(parts, append([]string{"BENCH"}, benchHeader...), rows)
		},
	}
}

// parts lists the short forms.
func (a *benches) parts(setup bench.Setup) []benchPart {
	noop := func(name string, taskTime time.Duration, tasks int) benchPart {
		n := bench.Noop{Setup: setup, Pilots: 2, Slots: 2, Tasks: tasks, TaskTime: taskTime, Sandbox: "auto"}
		return benchPart{Name: name, run: func(ctx context.Context) (any, [][]string, error) { return runNoop(ctx, n) }}
	}
	overlay := func(name string, change func(*bench.Overlay)) benchPart {
		o := bench.Overlay{
			Setup: setup, Pilots: 100, Sites: 2, Tasks: 1200, TaskTime: 2 * time.Second, Workflow: bench.Serial, Prefill: 1, Seed: 1, FileSize: bench.DefaultFileSize,
			Mode: pb.SiteMode_SITE_MODE_DISTRIBUTED, Transport: bench.TransportLight,
		}
		change(&o)
		return benchPart{Name: name, run: func(ctx context.Context) (any, [][]string, error) { return a.runOverlay(ctx, o, "") }}
	}
	queue := bench.Queue{Setup: setup, Tasks: 1_000_000, Sites: 100, Clients: 4, HandOut: 10_000}
	return []benchPart{
		noop("noop, /bin/true", 0, 5000),
		noop("noop, 20 ms", 20*time.Millisecond, 2000),
		{Name: "queue", run: func(ctx context.Context) (any, [][]string, error) { return runQueue(ctx, queue) }},
		{Name: "solvers", run: func(ctx context.Context) (any, [][]string, error) { return runSolvers(ctx, defaultSolvers) }},
		overlay("serial", func(*bench.Overlay) {}),
		overlay("splitting", func(o *bench.Overlay) { o.Workflow = bench.Splitting }),
		overlay("merging", func(o *bench.Overlay) { o.Workflow = bench.Merging }),
		overlay("serial, caches of 8 files", func(o *bench.Overlay) { o.CacheFiles = 8 }),
		overlay("merging, caches of half the working set", func(o *bench.Overlay) { o.Workflow, o.CacheShare = bench.Merging, 0.5 }),
		overlay("serial, no prefill", func(o *bench.Overlay) { o.Prefill = 0 }),
		overlay("serial, centralized", func(o *bench.Overlay) { o.Mode = pb.SiteMode_SITE_MODE_CENTRALIZED }),
		overlay("serial, isolated", func(o *bench.Overlay) { o.Mode = pb.SiteMode_SITE_MODE_ISOLATED }),
		overlay("serial, 1 % of 100 killed per second", func(o *bench.Overlay) { o.KillRate = 0.01 }),
		overlay("serial, masters killed and stopped", func(o *bench.Overlay) { o.Tasks, o.KillMasters, o.HangMasters = 1600, 1, 1 }),
		overlay("serial, 32 pilots in one process", func(o *bench.Overlay) { o.Pilots, o.Tasks = 32, 320 }),
		overlay("serial, 32 pilots that are processes", func(o *bench.Overlay) {
			o.Pilots, o.Tasks, o.Transport = 32, 320, bench.TransportProcesses
		}),
	}
}
