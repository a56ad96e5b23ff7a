package main

import (
	"errors"
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

func (a simCommands) group() *cobra.Command {
	command := &cobra.Command{
		Use: "sim", Short: "Play workloads in virtual time, with the code that runs live",
	}
	for _, play := range []*cobra.Command{a.run(), a.replay()} {
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
func (o *console) writePage(dir string, page *chart.Page) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, write := range page.Files() {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(write(file), file.Close()); err != nil {
			return err
		}
	}
	o.note("wrote %s\n", filepath.Join(dir, "report.html"))
	return nil
}
