package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/bench"
)

func (a *benches) queue() *cobra.Command {
	b := bench.Queue{}
	command := a.command("queue", "Measure the queue alone: submissions, hand-outs, restart, memory",
		`Submits many tasks to a queue with its database on disk, restarts it, and asks for
work as sites' masters do.`,
		func(ctx context.Context, setup bench.Setup) (any, [][]string, error) {
			b.Setup = setup
			return runQueue(ctx, b)
		})
	flags := command.Flags()
	flags.IntVar(&b.Tasks, "tasks", 1_000_000, "tasks to queue")
	flags.IntVar(&b.Sites, "sites", 100, "sites that may get them")
	flags.IntVar(&b.Clients, "clients", 4, "clients that submit at once, 1000 tasks in each call")
	flags.IntVar(&b.HandOut, "hand-out", 10_000, "tasks that a site is handed out at once")
	return command
}

func runQueue(ctx context.Context, b bench.Queue) (any, [][]string, error) {
	if err := b.Validate(); err != nil {
		return nil, nil, usage(err)
	}
	r, err := b.Run(ctx)
	return r, queueRows(r), err
}

func queueRows(r bench.QueueResult) [][]string {
	return [][]string{
		{"submitted tasks/s, durable", decimal(r.SubmitPerSecond), ">= 50000"},
		{"call of 1000 tasks, ms", fmt.Sprintf("p50 %.1f, p99 %.1f", 1000*r.SubmitCall.P50, 1000*r.SubmitCall.P99), ""},
		{fmt.Sprintf("hand-out of %d tasks, ms", r.HandOut), decimal(1000 * r.HandOutMedian), "<= 100 for 10000 of 1000000"},
		{"restart, s", decimal(r.RestartSeconds), ""},
		{"RSS empty, submitted, restarted, MiB", fmt.Sprintf("%.0f, %.0f, %.0f", mebibytes(r.EmptyRSS), mebibytes(r.SubmittedRSS), mebibytes(r.RestartedRSS)), ""},
		{"RSS per queued task, KiB", decimal(r.RSSPerTask / 1024), "<= 0.30"},
		{"database per task, KiB", decimal(r.DatabasePerTask / 1024), ""},
		{"queue CPU for the submissions, s", decimal(r.QueueCPU), ""},
		{"file system", r.FileSystem, ""},
		{"load before, after", r.LoadBefore + ", " + r.LoadAfter, ""},
	}
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
