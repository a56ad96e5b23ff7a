package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pilotage-grid/pilotage/sim/chart"
	"github.com/pilotage-grid/pilotage/sim/paper"
)

func newSim(a *app) *cobra.Command {
	command := &cobra.Command{
		Use: "sim", Short: "Play workloads and the papers' experiments in virtual time, with the code that runs live",
	}
	command.AddCommand(newSimPaper(a), newSimRun(a), newSimReplay(a))
	return command
}

func newSimPaper(a *app) *cobra.Command {
	var out string
	options := paper.Options001{}
	command := &cobra.Command{
		Use:   "paper ID",
		Short: "Repeat the experiments of a paper and set its claims beside what comes out",
		Long: `Repeats the experiments of a paper with the policies of this program. The
figures (CSV, SVG, PNG), tables and one page with everything (report.html) go to
--out; the claims are printed. Papers: 001 (worker-centric scheduling).`,
		Example:           "  pilotage sim paper 001 --out paper001\n  pilotage sim paper 001 --out quick --part 4 --topologies 1",
		Args:              cobra.ExactArgs(1),
		ValidArgs:         []string{"001"},
		ValidArgsFunction: cobra.FixedCompletions([]string{"001"}, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] != "001" {
				return coded(exitUsage, "no experiment of paper %q is known: give 001", args[0])
			}
			if options.Part < 1 || options.Part > 8 || options.Topologies < 1 || options.Topologies > 5 {
				return coded(exitUsage, "give --part 1 to 8 and --topologies 1 to 5")
			}
			return a.simPaper(options, out)
		},
	}
	flags := command.Flags()
	flags.StringVar(&out, "out", "", "folder for figures and report (default: print the claims only)")
	flags.IntVar(&options.Topologies, "topologies", 5, "of the paper's five")
	flags.IntVar(&options.Part, "part", 1, "take an n-th of the workload and of the capacities, for a quick look")
	return command
}

// parallel runs as many at once as there are processors.
func parallel(n int, do func(i int) error) error {
	group := errgroup.Group{}
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

func (a *app) simPaper(options paper.Options001, out string) error {
	var lock sync.Mutex
	over := 0
	options.Each = parallel
	options.Progress = func(_, all int) {
		lock.Lock()
		defer lock.Unlock()
		if over++; isTerminal(a.stderr) {
			_, _ = fmt.Fprintf(a.stderr, "\r%d of %d runs", over, all)
		}
	}
	report, err := paper.Run001(options)
	if err != nil {
		return err
	}
	if isTerminal(a.stderr) {
		_, _ = fmt.Fprintln(a.stderr)
	}
	if out != "" {
		if err := writePage(out, report.Page()); err != nil {
			return err
		}
	}
	summary := report.Summary()
	return a.print(report.Findings, summary.Header, summary.Rows)
}

// writePage writes a report, and its figures and tables as files of their own.
func writePage(dir string, page *chart.Page) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	write := func(name string, content func(io.Writer) error) error {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := content(file); err != nil {
			_ = file.Close()
			return err
		}
		return file.Close()
	}
	for _, f := range page.Figures {
		for ending, content := range map[string]func(io.Writer) error{".csv": f.CSV, ".svg": f.SVG, ".png": f.PNG} {
			if err := write(f.Name+ending, content); err != nil {
				return err
			}
		}
	}
	for _, t := range append([]*chart.Table{&page.Findings}, page.Tables...) {
		if len(t.Rows) == 0 {
			continue
		}
		if err := write(t.Name+".csv", t.CSV); err != nil {
			return err
		}
	}
	return write("report.html", page.HTML)
}
