package main

import (
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pilotage-grid/pilotage/sim/chart"
)

func newSim(a *app) *cobra.Command {
	command := &cobra.Command{
		Use: "sim", Short: "Play workloads and the papers' experiments in virtual time, with the code that runs live",
	}
	for _, play := range []*cobra.Command{newSimPaper(a), newSimRun(a), newSimReplay(a)} {
		// What plays keeps nothing that could be lost: the first signal ends it.
		play.PreRun = func(*cobra.Command, []string) {
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(simGarbage)
			}
		}
		command.AddCommand(play)
	}
	return command
}

// simGarbage has the garbage of a run collected seldom: it makes much, and keeps
// little for long.
const simGarbage = 300

// parallel runs as many at once as there are processors.
func parallel(n int, do func(i int) error) error {
	group := errgroup.Group{}
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
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
	for _, g := range page.Gantt {
		if g.Name == "" {
			continue
		}
		if err := write(g.Name+".csv", g.CSV); err != nil {
			return err
		}
		if err := write(g.Name+".svg", g.SVG); err != nil {
			return err
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
