package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

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
			collectSeldom()
		}
		command.AddCommand(play)
	}
	return command
}

// collectSeldom has the garbage of a run collected seldom, for it makes much and
// keeps little, but often enough not to take more than half of the memory. The
// variables of Go's runtime go before.
func collectSeldom() {
	var machine unix.Sysinfo_t
	if os.Getenv("GOGC") == "" && unix.Sysinfo(&machine) == nil {
		debug.SetGCPercent(300)
		if os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(int64(machine.Totalram) * int64(machine.Unit) / 2)
		}
	}
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

// checkFolder refuses, before a run, a folder that its report could not be
// written to; "" is none.
func checkFolder(flag, dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return coded(exitUsage, "%s: %w", flag, err)
	}
	probe, err := os.CreateTemp(dir, ".pilotage-*")
	if err != nil {
		return coded(exitUsage, "%s: nothing can be written there: %w", flag, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// writePage writes a report, and its figures and tables as files of their own,
// and says where it is.
func (a *app) writePage(dir string, page *chart.Page) error {
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
	const report = "report.html"
	if err := write(report, page.HTML); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(a.stderr, "wrote %s\n", filepath.Join(dir, report))
	return nil
}
