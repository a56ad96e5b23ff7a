// Command papers repeats the experiments of the papers that stand behind Pilotage
// and sets their claims beside what comes out (docs/papers). Papers 000 to 003 are
// played in virtual time, 004 with real queues and whole pilots.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pilotage-grid/pilotage/papers/experiment"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := newCommand(os.Stdout, os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "papers:", err)
		os.Exit(1)
	}
}

// printer is where a command writes.
type printer struct{ out, told io.Writer }

func newCommand(out, told io.Writer) *cobra.Command {
	p := &printer{out, told}
	command := &cobra.Command{
		Use:   "papers",
		Short: "Repeat the papers' experiments and set their claims beside what comes out",
		Long: `Repeats the experiments of a paper with the policies of Pilotage. The figures (CSV,
SVG, PNG), tables and one page with everything (report.html) go to --out; the
claims are printed.`,
		SilenceUsage: true, SilenceErrors: true,
	}
	if os.Getenv("GOGC") == "" { // a run makes much garbage and keeps little
		debug.SetGCPercent(300)
	}
	command.AddCommand(
		p.drawn("000", "Data-aware dispatch: order of tasks, thput-gfpio, readgf, BLAST mix", experiment.Run000),
		p.coadd(),
		p.drawn("002", "Plans for data sets: a hot data set under growing load (the paper has no experiment)", experiment.Run002),
		p.drawn("003", "Replicas by demand: 20 files on 4 nodes, 40 tasks on one file", experiment.Run003),
		p.latebinding(),
		p.crossing(),
		p.drawn("ours", "The workloads of 000 to 003 with our default policy beside theirs", experiment.RunOurs),
		p.recorded(),
		p.light(),
	)
	return command
}

// drawn is a command for an experiment that averages random draws.
func (p *printer) drawn(id, short string, run func(experiment.Options) (*experiment.Report, error)) *cobra.Command {
	var out string
	options := experiment.Options{}
	command := &cobra.Command{
		Use: id, Short: short, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if options.Seeds < 0 || options.Seeds > 1000 {
				return errors.New("give --seeds 1 to 1000")
			}
			options.Effort = p.effort()
			return p.report(out, func() (*experiment.Report, error) { return run(options) })
		},
	}
	command.Flags().StringVar(&out, "out", "", "folder for figures and report (default: print the claims only)")
	command.Flags().IntVar(&options.Seeds, "seeds", 0, "random draws that are averaged (default: as many as the paper's page has)")
	return command
}

func (p *printer) coadd() *cobra.Command {
	var out string
	options := experiment.Options001{}
	command := &cobra.Command{
		Use: "001", Short: "Worker-centric scheduling: Coadd over sites, capacities, costs, workers", Args: cobra.NoArgs,
		Example: "  papers 001 --out quick --part 4 --topologies 1",
		RunE: func(*cobra.Command, []string) error {
			if options.Part < 1 || options.Part > 8 || options.Topologies < 1 || options.Topologies > 5 || options.Seeds < 1 || options.Seeds > 100 {
				return errors.New("give --part 1 to 8, --topologies 1 to 5 and --seeds 1 to 100")
			}
			options.Effort = p.effort()
			return p.report(out, func() (*experiment.Report, error) { return experiment.Run001(options) })
		},
	}
	flags := command.Flags()
	flags.StringVar(&out, "out", "", "folder for figures and report (default: print the claims only)")
	flags.IntVar(&options.Topologies, "topologies", 5, "of the paper's five")
	flags.BoolVar(&options.Table4, "table4", false, "play table 4 alone")
	flags.IntVar(&options.Seeds, "seeds", 1, "bags of tasks that are drawn")
	flags.IntVar(&options.Part, "part", 1, "take an n-th of the workload and of the capacities, for a quick look")
	return command
}

// effort runs as many at once as there are processors, and tells of each that is
// over.
func (p *printer) effort() experiment.Effort {
	over, lock := 0, sync.Mutex{}
	return experiment.Effort{
		Each: func(n int, do func(i int) error) error {
			group := errgroup.Group{}
			group.SetLimit(runtime.GOMAXPROCS(0))
			for i := range n {
				group.Go(func() error { return do(i) })
			}
			return group.Wait()
		},
		Progress: func() {
			lock.Lock()
			defer lock.Unlock()
			over++
			_, _ = fmt.Fprintf(p.told, "\r%d runs", over)
		},
	}
}

// report carries out an experiment, prints its claims, and writes the page with
// everything into a folder, if one is given.
func (p *printer) report(folder string, run func() (*experiment.Report, error)) error {
	if folder != "" { // a folder that cannot be made is said before the run
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	report, err := run()
	_, _ = fmt.Fprintln(p.told)
	if err != nil {
		return err
	}
	if folder != "" {
		for name, write := range report.Page().Files() {
			if err := writeFile(filepath.Join(folder, name), write); err != nil {
				return err
			}
		}
	}
	return report.Summary().Text(p.out)
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
