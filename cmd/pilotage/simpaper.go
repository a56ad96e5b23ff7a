package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotage-grid/pilotage/sim/paper"
)

// simPaperFlags say how much of an experiment is run.
type simPaperFlags struct {
	out        string
	seeds      int
	part       int
	topologies int
}

// papers are those whose experiments can be repeated.
var papers = []string{"000", "001", "002", "003", "ours"}

// paperFlags tell which papers a flag is for.
var paperFlags = map[string][]string{
	"seeds": {"000", "002", "003", "ours"}, "topologies": {"001"}, "part": {"001"},
}

// checkPaperFlags refuses flags that would change nothing.
func checkPaperFlags(flags *pflag.FlagSet, id string) (err error) {
	if !slices.Contains(papers, id) {
		return nil // that is said elsewhere
	}
	flags.Visit(func(flag *pflag.Flag) {
		if of := paperFlags[flag.Name]; err == nil && of != nil && !slices.Contains(of, id) {
			err = fmt.Errorf("--%s is for paper %s: it would change nothing of paper %s", flag.Name, strings.Join(of, ", "), id)
		}
	})
	return err
}

func newSimPaper(a *app) *cobra.Command {
	f := &simPaperFlags{}
	command := &cobra.Command{
		Use:   "paper ID",
		Short: "Repeat the experiments of a paper and set its claims beside what comes out",
		Long: `Repeats the experiments of a paper with the policies of this program. The
figures (CSV, SVG, PNG), tables and one page with everything (report.html) go to
--out; the claims are printed. Papers:

  000  data-aware dispatch: order of tasks, thput-gfpio, readgf, BLAST mix
  001  worker-centric scheduling: Coadd
  002  plans for data sets: no experiment in the paper; a hot data set under
       growing load
  003  replicas by demand: 20 files on 4 nodes, 40 tasks on one file
  ours the workloads of 000 to 003 with our default policy beside theirs

Paper 004 is played with whole pilots by "pilotage bench paper".`,
		Example:           "  pilotage sim paper 000 --out paper000\n  pilotage sim paper 001 --out quick --part 4 --topologies 1\n",
		Args:              asUsed,
		ValidArgs:         papers,
		ValidArgsFunction: cobra.FixedCompletions(papers, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkPaperFlags(c.Flags(), args[0]); err != nil {
				return usage(err)
			}
			return a.simPaper(f, args[0])
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.out, "out", "", "folder for figures and report (default: print the claims only)")
	flags.IntVar(&f.seeds, "seeds", 0, "000, 002, 003: random draws that are averaged (default: as many as the paper's page has)")
	flags.IntVar(&f.topologies, "topologies", 5, "001: of the paper's five")
	flags.IntVar(&f.part, "part", 1, "001: take an n-th of the workload and of the capacities, for a quick look")
	return command
}

// run carries out the experiment of a paper and tells how far it is.
func (f *simPaperFlags) run(a *app, id string) (*paper.Report, error) {
	effort := paper.Effort{Each: parallel}
	shown := a.countRuns(0)
	defer shown.end()
	effort.Progress = shown.add
	options := paper.Options{Seeds: f.seeds, Effort: effort}
	switch id {
	case "000":
		return paper.Run000(options)
	case "001":
		return paper.Run001(paper.Options001{Part: f.part, Topologies: f.topologies, Effort: effort})
	case "002":
		return paper.Run002(options)
	case "003":
		return paper.Run003(options)
	case "ours":
		return paper.RunOurs(options)
	}
	return nil, coded(exitUsage, "no experiment of paper %q is known: give 000, 001, 002, 003 or ours", id)
}

func (a *app) simPaper(f *simPaperFlags, id string) error {
	if f.part < 1 || f.part > 8 || f.topologies < 1 || f.topologies > 5 || f.seeds < 0 || f.seeds > 1000 {
		return coded(exitUsage, "give --part 1 to 8, --topologies 1 to 5 and --seeds 1 to 1000")
	}
	if err := checkFolder("--out", f.out); err != nil {
		return err
	}
	report, err := f.run(a, id)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := a.writePage(f.out, report.Page()); err != nil {
			return err
		}
	}
	summary := report.Summary()
	return a.print(report.Findings, summary.Header, summary.Rows)
}
