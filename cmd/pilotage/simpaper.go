package main

import (
	"fmt"
	"sync"

	"github.com/spf13/cobra"

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
var papers = []string{"000", "001", "002", "003"}

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
  003  replicas by demand: 20 files on 4 nodes, 40 tasks on one file`,
		Example:           "  pilotage sim paper 000 --out paper000\n  pilotage sim paper 001 --out quick --part 4 --topologies 1",
		Args:              cobra.ExactArgs(1),
		ValidArgs:         papers,
		ValidArgsFunction: cobra.FixedCompletions(papers, cobra.ShellCompDirectiveNoFileComp),
		RunE:              func(_ *cobra.Command, args []string) error { return a.simPaper(f, args[0]) },
	}
	flags := command.Flags()
	flags.StringVar(&f.out, "out", "", "folder for figures and report (default: print the claims only)")
	flags.IntVar(&f.seeds, "seeds", 0, "000, 002, 003: random draws that are averaged (default: as many as the paper's page has)")
	flags.IntVar(&f.topologies, "topologies", 5, "001: of the paper's five")
	flags.IntVar(&f.part, "part", 1, "001: take an n-th of the workload and of the capacities, for a quick look")
	return command
}

// run carries out the experiment of a paper.
func (f *simPaperFlags) run(id string, effort paper.Effort) (*paper.Report, error) {
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
	}
	return nil, coded(exitUsage, "no experiment of paper %q is known: give 000, 001, 002 or 003", id)
}

func (a *app) simPaper(f *simPaperFlags, id string) error {
	if f.part < 1 || f.part > 8 || f.topologies < 1 || f.topologies > 5 || f.seeds < 0 || f.seeds > 1000 {
		return coded(exitUsage, "give --part 1 to 8, --topologies 1 to 5 and --seeds 1 to 1000")
	}
	var lock sync.Mutex
	over := 0
	report, err := f.run(id, paper.Effort{Each: parallel, Progress: func() {
		lock.Lock()
		defer lock.Unlock()
		if over++; isTerminal(a.stderr) {
			_, _ = fmt.Fprintf(a.stderr, "\r%d runs", over)
		}
	}})
	if err != nil {
		return err
	}
	if isTerminal(a.stderr) {
		_, _ = fmt.Fprintln(a.stderr)
	}
	if f.out != "" {
		if err := writePage(f.out, report.Page()); err != nil {
			return err
		}
	}
	summary := report.Summary()
	return a.print(report.Findings, summary.Header, summary.Rows)
}
