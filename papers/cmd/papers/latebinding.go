package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/bench"
	"github.com/pilotage-grid/pilotage/papers/experiment"
	"github.com/pilotage-grid/pilotage/papers/latebinding"
)

func (p *printer) latebinding() *cobra.Command {
	paper := latebinding.Paper{}
	var transport string
	var protocols []string
	quick := false
	command := &cobra.Command{
		Use: "004", Short: "Late-binding overlays: three architectures on growing testbeds, with whole pilots", Args: cobra.NoArgs,
		Long: `Runs the three architectures of paper 004 (section IV) on growing testbeds, three
workflow types each, and draws its figures 2 to 8: CSV, SVG, PNG and a page with
everything (report.html) go to --out, the claims are printed. Every run is kept
in --out as well, so an experiment that was stopped goes on where it was. With
--scale 1 and --speed 1 it is the paper's experiment, which takes days; the grid
that was run is named in the report.`,
		Example: "  papers 004 --out paper004 --quick\n  papers 004 --out full --scale 1 --speed 10",
		RunE: func(c *cobra.Command, _ []string) error {
			paper.Progress = func(format string, args ...any) { _, _ = fmt.Fprintf(p.told, format+"\n", args...) }
			paper.Transport = bench.Transport(transport)
			for _, protocol := range protocols {
				paper.Protocols = append(paper.Protocols, latebinding.Protocol(protocol))
			}
			if quick {
				paper.Seeds, paper.Speed, paper.SingleSpeed = 1, 200, 200
			}
			if err := paper.Validate(); err != nil {
				return err
			}
			if _, err := os.Stat(paper.Program); err != nil {
				return fmt.Errorf("--pilotage: %w (make build makes it)", err)
			}
			return p.report(paper.Out, func() (*experiment.Report, error) { return paper.Run(c.Context()) })
		},
	}
	flags := command.Flags()
	flags.StringVar(&paper.Out, "out", "", "folder for runs, figures and report")
	flags.StringVar(&paper.Program, "pilotage", "bin/pilotage", "the program whose queue is measured")
	flags.StringVar(&paper.Folder, "folder", "", "where to put what is measured, not on tmpfs (default: the system's temporary folder)")
	flags.IntVar(&paper.Scale, "scale", 5, "divides the paper's 100 to 1500 pilots and 300 to 10000 tasks")
	flags.Float64Var(&paper.Speed, "speed", 100, "divides the paper's times")
	flags.IntVar(&paper.Seeds, "seeds", 3, "runs of each workflow type")
	flags.BoolVar(&quick, "quick", false, "one run of each workflow type, and times by 200")
	flags.StringSliceVar(&protocols, "protocol", []string{"paper", "ours"}, "paper: its messages, its rounds, no task given early; ours: our defaults")
	flags.StringVar(&transport, "transport", "light", "what carries the pilots' bytes: light (memory) or tcp")
	flags.IntVar(&paper.SingleScale, "single-scale", 1, "the same for the single runs of figures 5 and 6; 0 leaves them out")
	flags.Float64Var(&paper.SingleSpeed, "single-speed", 20, "divides the paper's times in them")
	return command
}
