package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/bench"
)

func (a *benches) solvers() *cobra.Command {
	b := defaultSolvers
	command := a.command("solvers", "Measure how long masters take to solve rank matrices, and how well",
		`Draws rank matrices in which every pilot has a free slot and ranks some tasks
itself, and fills the whole site at once: the largest sum of ranks (exact), best
rank first (greedy), and one pilot after the other (sequential).`,
		func(ctx context.Context, _ bench.Setup) (any, [][]string, error) { return runSolvers(ctx, b) })
	flags := command.Flags()
	flags.IntVar(&b.ExactPilots, "exact-pilots", b.ExactPilots, "pilots of the matrix that is solved exactly, and by the others")
	flags.IntVar(&b.ExactTasks, "exact-tasks", b.ExactTasks, "its tasks")
	flags.IntVar(&b.GreedyPilots, "greedy-pilots", b.GreedyPilots, "pilots of the matrix that is solved greedily only")
	flags.IntVar(&b.GreedyTasks, "greedy-tasks", b.GreedyTasks, "its tasks")
	flags.IntVar(&b.Own, "ranks-per-pilot", b.Own, "tasks that each pilot ranks itself")
	flags.IntVar(&b.Runs, "runs", b.Runs, "matrices, each drawn anew")
	flags.Uint64Var(&b.Seed, "seed", b.Seed, "draws ranks")
	return command
}

var defaultSolvers = bench.Solvers{ExactPilots: 1500, ExactTasks: 5000, GreedyPilots: 5000, GreedyTasks: 50_000, Own: 10, Runs: 3, Seed: 1}

func runSolvers(ctx context.Context, b bench.Solvers) (any, [][]string, error) {
	if err := b.Validate(); err != nil {
		return nil, nil, usage(err)
	}
	r, err := b.Run(ctx)
	return r, solversRows(r), err
}

func solversRows(r bench.SolversResult) [][]string {
	milliseconds := func(d bench.Distribution) string { return fmt.Sprintf("p50 %.0f, worst %.0f", 1000*d.P50, 1000*d.P99) }
	size := func(pilots, tasks int) string { return fmt.Sprintf("%d pilots, %d tasks, ms", pilots, tasks) }
	return [][]string{
		{"exact, " + size(r.ExactPilots, r.ExactTasks), milliseconds(r.Exact), "<= 1000 for 1500 x 5000"},
		{"greedy, same matrix, ms", milliseconds(r.GreedySame), ""},
		{"sequential, same matrix, ms", milliseconds(r.Sequential), ""},
		{"greedy, " + size(r.GreedyPilots, r.GreedyTasks), milliseconds(r.GreedySparse), "<= 200 for 5000 x 50000"},
		{"sum of ranks of greedy, sequential, to the best", fmt.Sprintf("%.4f, %.4f", r.GreedyRatio, r.SequentialRatio), ""},
		{"load before, after", r.LoadBefore + ", " + r.LoadAfter, ""},
	}
}
