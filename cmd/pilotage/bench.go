package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/bench"
)

// benches measure this program.
type benches struct {
	*app
	folder, profiles string
}

func (a *benches) group() *cobra.Command {
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure this program on this machine",
		Long: `Each bench starts what it measures, in a temporary folder, and removes it at the
end. Run benches on an idle machine, and not on tmpfs: folder, file system and
load are part of every result.`,
	}
	flags := command.PersistentFlags()
	flags.StringVar(&a.folder, "folder", "", "where to put what is measured (default: the system's temporary folder)")
	flags.StringVar(&a.profiles, "profiles", "", "folder for CPU profiles of the processes")
	command.AddCommand(a.all(), a.noop(), a.overlay(), a.queue(), a.solvers())
	return command
}

// setup prepares what every bench needs.
func (a *benches) setup() (bench.Setup, error) {
	program, err := os.Executable()
	if err != nil {
		return bench.Setup{}, err
	}
	setup := bench.Setup{Program: program, Folder: a.folder}
	setup.Progress = func(format string, args ...any) { slog.Info(fmt.Sprintf(format, args...)) }
	if isTerminal(a.out.stderr) {
		setup.Progress = func(format string, args ...any) { a.out.note(format+"\n", args...) }
	}
	if a.profiles != "" {
		if setup.Profiles, err = filepath.Abs(a.profiles); err != nil {
			return bench.Setup{}, err
		}
		if err := os.MkdirAll(setup.Profiles, 0o755); err != nil {
			return bench.Setup{}, err
		}
	}
	return setup, nil
}

// command makes the command of a bench.
func (a *benches) command(use, short, long string, run func(context.Context, bench.Setup) (result any, rows [][]string, err error)) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: long, Args: asUsed, RunE: func(c *cobra.Command, _ []string) error {
		setup, err := a.setup()
		if err != nil {
			return err
		}
		result, rows, err := run(c.Context(), setup)
		if err != nil {
			return err
		}
		return a.out.print(result, benchHeader, rows)
	}}
}

var benchHeader = []string{"FIGURE", "MEASURED", "GOAL"}

func (a *benches) noop() *cobra.Command {
	n := bench.Noop{}
	command := a.command("noop", "Measure the path of short tasks: a real queue, real pilots, real processes",
		`Runs tasks that do nothing through a queue with its database on disk and pilots
that are processes of their own, and the same command as often with xargs. The
clock runs from the first submission to the last outcome that is on disk.`,
		func(ctx context.Context, setup bench.Setup) (any, [][]string, error) {
			if n.Setup = setup; n.Pilots < 1 || n.Slots < 1 || n.Tasks < 1 || n.TaskTime < 0 {
				return nil, nil, coded(exitUsage, "--pilots, --slots and --tasks are at least 1, --task-seconds is not negative")
			}
			if !slices.Contains([]string{"auto", "landlock", "off"}, n.Sandbox) {
				return nil, nil, coded(exitUsage, "--sandbox is %q: give auto, landlock or off", n.Sandbox)
			}
			return runNoop(ctx, n)
		})
	flags := command.Flags()
	flags.IntVar(&n.Pilots, "pilots", 2, "pilot processes")
	flags.IntVar(&n.Slots, "slots", 2, "slots per pilot")
	flags.IntVar(&n.Tasks, "tasks", 5000, "tasks")
	flags.Var(seconds{&n.TaskTime}, "task-seconds", "seconds that each task sleeps; 0 runs /bin/true")
	flags.StringVar(&n.Sandbox, "sandbox", "auto", "what confines payloads at most, as at a pilot: auto, landlock or off")
	flags.Var(&n.Network, "payload-network", "what payloads reach, as at a pilot: host, all, none or ports=80,443,1094")
	flags.StringVar(&n.Container, "container", "", "folder of a root file system that payloads run in, as at a pilot; it has /bin/true and /bin/sleep")
	return command
}

func runNoop(ctx context.Context, n bench.Noop) (any, [][]string, error) {
	r, err := n.Run(ctx)
	return r, noopRows(r), err
}

func noopRows(r bench.NoopResult) [][]string {
	rateGoal, delayGoal := ">= 1000", ""
	if r.TaskSeconds > 0 {
		rateGoal, delayGoal = "", "<= 1.50 for tasks of 20 ms"
	}
	return [][]string{
		{"tasks/s, durable", decimal(r.TasksPerSecond), rateGoal},
		{"xargs -P" + strconv.Itoa(r.Pilots*r.Slots) + " tasks/s", decimal(r.XargsTasksPerSecond), ""},
		{"ratio to xargs", decimal(r.Ratio), ">= 0.60"},
		{"inter-task delay p50, ms", decimal(1000 * r.InterTaskDelay.P50), delayGoal},
		{"inter-task delay p99, ms", decimal(1000 * r.InterTaskDelay.P99), ""},
		{"queue CPU, s", decimal(r.QueueCPU), ""},
		{"queue RSS, MiB", decimal(float64(r.QueueRSS) / (1 << 20)), ""},
		{"CPU of pilots and spawners, s", decimal(r.PilotCPU), ""},
		{"their RSS per slot, MiB", decimal(float64(r.SlotRSS) / (1 << 20)), ""},
		{"failed tasks", strconv.Itoa(r.Failed), "0"},
		{"file system", r.FileSystem, ""},
		{"load before, after", r.LoadBefore + ", " + r.LoadAfter, ""},
	}
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// seconds is a flag in seconds, with fractions.
type seconds struct{ value *time.Duration }

// String satisfies pflag.Value.
func (s seconds) String() string {
	if s.value == nil {
		return "0"
	}
	return strconv.FormatFloat(s.value.Seconds(), 'f', -1, 64)
}

// Set satisfies pflag.Value. A time with its unit is taken as well.
func (s seconds) Set(text string) error {
	if value, err := time.ParseDuration(text); err == nil {
		*s.value = value
		return nil
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(value) > math.MaxInt64/float64(time.Second) || math.IsNaN(value) {
		return errors.New("give seconds, for example 20 or 0.5, or a time with its unit, for example 30s or 200ms")
	}
	*s.value = time.Duration(value * float64(time.Second))
	return nil
}

// Type satisfies pflag.Value.
func (s seconds) Type() string { return "seconds" }
