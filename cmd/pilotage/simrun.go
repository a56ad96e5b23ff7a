package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/journal"
	"github.com/pilotage-grid/pilotage/sim/grid"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
	"github.com/pilotage-grid/pilotage/task/workflow/recording"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

type simRunFlags struct {
	sites, policies, whatIf []string
	taskTime                time.Duration
	guesses                 []string // flags given about what a workflow file does not say
	fileSize, out           string
	seed                    uint64
	background              bool
	site                    siteTrial
}

func (a simCommands) run() *cobra.Command {
	f := &simRunFlags{}
	command := &cobra.Command{
		Use:   "run WORKLOAD",
		Short: "Compare policies on a workload, and say which to take",
		Long: `Plays a workload on simulated sites with the code that runs live, once for each
policy, and says which to take. WORKLOAD is a file (WfFormat 1.5 as .json, Pegasus
DAX 2.1 as .xml or .dax, a workflow as .yaml, what a live site has run as .journal
(pilotage pilot --journal); also gzipped).

A site is NAME or NAME,KEY=VALUE,... with the keys nodes (4), slots (4 a node),
cores (as slots), memory (16GiB), cache (20GiB a node), speed (1), network
(125e6 bytes/s a node), storage (500e6 bytes/s), wide (125e6 bytes/s),
serial (yes: the storage element serves one read at a time),
fail (30m: the first node fails then).

A what-if changes every site: cache=2x, nodes=0.5x, slots=2x, speed=2x,
network=10x, storage=0.1x, wide=2x; or takes a site away: down=NAME. One that
cannot be played is named at the end, with the reason, and its place in the table
is empty.

All sites have the same --solver, --locality-wait and --replicate, as in
pilotage site add.`,
		Example: `  pilotage sim run montage.json.gz --site siteA,nodes=8 --policy locality,rest,overlap
  pilotage sim run montage.json.gz --site a,cache=1GiB --site b --what-if cache=2x --what-if down=b
  pilotage sim run montage.json.gz --policy locality --solver exact --locality-wait 2m`,
		Args: asUsed,
		RunE: func(c *cobra.Command, args []string) error {
			if f.taskTime < 0 {
				return coded(exitUsage, "--task-time %s: times cannot be negative", f.taskTime)
			}
			for _, guess := range []string{"task-time", "file-size"} {
				if c.Flags().Changed(guess) {
					f.guesses = append(f.guesses, guess)
				}
			}
			if err := f.site.read(c.Flags()); err != nil {
				return usage(err)
			}
			return a.simRun(f, args[0])
		},
	}
	flags := command.Flags()
	flags.StringArrayVar(&f.sites, "site", []string{"siteA"}, "a site (repeatable)")
	flags.StringSliceVar(&f.policies, "policy", []string{matcher.DefaultRank, "overlap", "rest"}, "ranking policies to compare, by name; an expression needs a --policy of its own")
	f.site.flags(flags)
	flags.StringArrayVar(&f.whatIf, "what-if", nil, "also play it with this change (repeatable)")
	flags.DurationVar(&f.taskTime, "task-time", time.Minute, "run time of the tasks of a workflow file, which does not say")
	flags.StringVar(&f.fileSize, "file-size", "100MB", "size of the files of a workflow file that does not say")
	flags.Uint64Var(&f.seed, "seed", 1, "of all randomness")
	flags.BoolVar(&f.background, "background", false, "load the nodes with other jobs: 0 to 100 %, drawn anew every 5 minutes")
	flags.StringVar(&f.out, "out", "", "folder for report.html with Gantt charts, and the table as CSV")
	return command
}

// readWorkload reads what is to be played, by the ending of its name.
func (f *simRunFlags) readWorkload(name string) (*trace.Workload, error) {
	ending := recording.Ending(name)
	if len(f.guesses) > 0 && ending != ".yaml" && ending != ".yml" {
		return nil, usage(fmt.Errorf("--%s is for workflow files (.yaml), which do not say it: it would change nothing of %s", f.guesses[0], name))
	}
	data, err := readInput(name, recording.MaxBytes)
	if err != nil {
		return nil, err
	}
	switch ending {
	case ".json", ".xml", ".dax":
		return recording.Parse(name, data)
	case ".yaml", ".yml":
		return f.fromWorkflow(name, data)
	case ".journal":
		workload, err := journal.Workload(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return workload, nil
	}
	return nil, fmt.Errorf("%s: what is it? Give a file that ends in .json (WfFormat), .xml or .dax (Pegasus), .yaml (a workflow) or .journal (of a pilot)", name)
}

func (f *simRunFlags) fromWorkflow(name string, data []byte) (*trace.Workload, error) {
	parsed, err := workflow.Parse(name, data)
	if err != nil {
		return nil, err
	}
	plan, err := parsed.Expand(workflow.Options{Dir: filepath.Dir(name), AllowMissing: true, CheckExpression: checkExpression})
	if err != nil {
		return nil, err
	}
	size, err := task.ParseBytes(f.fileSize)
	if err != nil {
		return nil, fmt.Errorf("--file-size: %w", err)
	}
	return trace.FromPlan(plan, f.taskTime, size, func(path string) task.Bytes {
		info, err := os.Stat(path)
		if err != nil {
			return trace.Unknown
		}
		return task.Bytes(info.Size())
	})
}

// simRun plays all policies with all what-ifs, and reports what could be played.
func (a simCommands) simRun(f *simRunFlags, name string) error {
	workload, err := f.readWorkload(name)
	if err != nil {
		return usage(err)
	}
	sites, err := parseSites(f.sites)
	if err != nil {
		return usage(err)
	}
	f.site.apply(sites)
	variants := append([]string{""}, f.whatIf...)
	plans := make([][]grid.Site, len(variants))
	for i, change := range variants {
		if plans[i], err = changeSites(sites, change); err != nil {
			return usage(err)
		}
	}
	if err := f.checkPolicies(); err != nil {
		return usage(err)
	}
	if err := checkFolder("--out", f.out); err != nil {
		return err
	}
	runs := make([]played, len(variants)*len(f.policies))
	shown := a.out.countRuns(len(runs))
	err = parallel(len(runs), func(i int) error {
		config := grid.Config{Workload: workload, Sites: plans[i/len(f.policies)], Rank: f.policies[i%len(f.policies)], Seed: f.seed, Noticed: 3 * time.Second, KeepBars: f.out != ""}
		if f.background {
			config.Background = 5 * time.Minute
		}
		result, err := grid.Run(config)
		runs[i] = describeRun(config.Rank, variants[i/len(f.policies)], result, err)
		shown.add()
		return nil
	})
	shown.end()
	if err != nil {
		return err
	}
	for i := range runs {
		runs[i].against(runs[i%len(f.policies)])
	}
	if err := failedRuns(runs); err != nil {
		if slices.ContainsFunc(runs, func(r played) bool { return r.figures != nil }) {
			return errors.Join(a.out.reportRuns(f, workload, runs), usage(err))
		}
		return usage(err)
	}
	return a.out.reportRuns(f, workload, runs)
}

// checkPolicies refuses what is no rank.
func (f *simRunFlags) checkPolicies() error {
	if len(f.policies) == 0 {
		return errors.New("give at least one --policy")
	}
	for _, policy := range f.policies {
		if err := matcher.Check(matcher.RankExpression, policy); err != nil {
			return fmt.Errorf("--policy %q: %w", policy, err)
		}
	}
	return nil
}
