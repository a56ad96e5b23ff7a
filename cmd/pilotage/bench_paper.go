package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/bench"
)

func newBenchPaper(a *app, f *benchFlags) *cobra.Command {
	p := bench.Paper{}
	var transport string
	var protocols []string
	quick := false
	command := &cobra.Command{
		Use:   "paper",
		Short: "Repeat the experiments of paper 004 and set its claims beside what comes out",
		Long: `Runs the three architectures of paper 004 (section IV) on growing testbeds, three
workflow types each, and draws its figures 2 to 8: CSV, SVG, PNG and a page with
everything (report.html) go to --out, the claims are printed. Every run is kept
in --out as well, so a bench that was stopped goes on where it was. With
--scale 1 and --speed 1 it is the paper's experiment, which takes days; the grid
that was run is named in the report.`,
		Example: "  pilotage bench paper --out paper004 --quick\n  pilotage bench paper --out full --scale 1 --speed 10",
		Args:    asUsed,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if p.Setup, err = f.setup(a); err != nil {
				return err
			}
			p.Transport = bench.Transport(transport)
			for _, protocol := range protocols {
				p.Protocols = append(p.Protocols, bench.Protocol(protocol))
			}
			if quick {
				p.Seeds, p.Speed, p.SingleSpeed = 1, 200, 200
			}
			if p.Out == "" {
				return coded(exitUsage, "give a folder for runs and figures with --out")
			}
			if err := p.Validate(); err != nil {
				return usage(err)
			}
			if err := checkFolder("--out", p.Out); err != nil {
				return err
			}
			report, err := p.Run(c.Context())
			if err != nil {
				return fmt.Errorf("paper 004: %w", err)
			}
			if err := a.writePage(p.Out, report.Page()); err != nil {
				return err
			}
			summary := report.Summary()
			return a.print(report.Findings, summary.Header, summary.Rows)
		},
	}
	flags := command.Flags()
	flags.StringVar(&p.Out, "out", "", "folder for runs, figures and report")
	flags.IntVar(&p.Scale, "scale", 5, "divides the paper's 100 to 1500 pilots and 300 to 10000 tasks")
	flags.Float64Var(&p.Speed, "speed", 100, "divides the paper's times")
	flags.IntVar(&p.Seeds, "seeds", 3, "runs of each workflow type")
	flags.BoolVar(&quick, "quick", false, "one run of each workflow type, and times by 200")
	flags.StringSliceVar(&protocols, "protocol", []string{"paper", "ours"}, "paper: its messages, its rounds, no task given early; ours: our defaults")
	flags.StringVar(&transport, "transport", "light", "what carries the pilots' bytes: memory, light or tcp")
	flags.IntVar(&p.SingleScale, "single-scale", 1, "the same for the single runs of figures 5 and 6; 0 leaves them out")
	flags.Float64Var(&p.SingleSpeed, "single-speed", 20, "divides the paper's times in them")
	return command
}
