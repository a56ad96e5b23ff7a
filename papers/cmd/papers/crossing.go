package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/bench"
	"github.com/pilotage-grid/pilotage/papers/experiment"
	"github.com/pilotage-grid/pilotage/papers/latebinding"
)

func (p *printer) crossing() *cobra.Command {
	c := latebinding.Crossing{}
	var out, transport string
	command := &cobra.Command{
		Use: "crossing", Short: "More pilots until the central queue's processor is full: central and distributed matching of 004", Args: cobra.NoArgs,
		Long: `Runs a workflow on ever more pilots, matched by the queue, in the paper's rounds, and
with our defaults, and draws requests, the queue's processor time and the delay of
slots of all three. The queue gets a share of one processor, so that it is full with
as many pilots as a machine bears; with --share 1 it takes some thousand.`,
		Example: "  papers crossing --out crossing\n  papers crossing --out long --share 0.5 --pilots 100,200,400,800,1600",
		RunE: func(command *cobra.Command, _ []string) error {
			c.Progress = func(format string, args ...any) { _, _ = fmt.Fprintf(p.told, format+"\n", args...) }
			c.Transport = bench.Transport(transport)
			if err := c.Validate(); err != nil {
				return err
			}
			if _, err := os.Stat(c.Program); err != nil {
				return fmt.Errorf("--pilotage: %w (make build makes it)", err)
			}
			return p.report(out, func() (*experiment.Report, error) { return c.Run(command.Context()) })
		},
	}
	flags := command.Flags()
	flags.StringVar(&out, "out", "", "folder for figures and report (default: print the claims only)")
	flags.StringVar(&c.Program, "pilotage", "bin/pilotage", "the program whose queue is measured")
	flags.StringVar(&c.Folder, "folder", "", "where to put what is measured, not on tmpfs (default: the system's temporary folder)")
	flags.IntSliceVar(&c.Pilots, "pilots", []int{25, 50, 100, 200, 400}, "pilots of the testbeds")
	flags.IntVar(&c.PerPilot, "tasks", 4, "tasks of each pilot")
	flags.DurationVar(&c.TaskTime, "task-time", 4*time.Second, "of a task in the mean; each varies by 30 %")
	flags.Float64Var(&c.Share, "share", 0.2, "of one processor, that the queue gets")
	flags.StringVar(&transport, "transport", "light", "what carries the pilots' bytes: light (memory) or tcp")
	return command
}
