package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/journal"
	"github.com/pilotage-grid/pilotage/sim/chart"
	"github.com/pilotage-grid/pilotage/sim/grid"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
	"github.com/pilotage-grid/pilotage/task/workflow/coadd"
	"github.com/pilotage-grid/pilotage/task/workflow/dax"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
	"github.com/pilotage-grid/pilotage/task/workflow/wfformat"
)

type simRunFlags struct {
	sites, policies, whatIf []string
	taskTime                time.Duration
	fileSize, out           string
	seed                    uint64
	background, light       bool
}

func newSimRun(a *app) *cobra.Command {
	f := &simRunFlags{}
	command := &cobra.Command{
		Use:   "run WORKLOAD",
		Short: "Compare policies on a workload, and say which to take",
		Long: `Plays a workload on simulated sites with the code that runs live, once for each
policy, and says which to take. WORKLOAD is a file (WfFormat 1.5 as .json, Pegasus
DAX 2.1 as .xml or .dax, a workflow as .yaml, what a live site has run as .journal
(pilotage pilot --journal); also gzipped) or coadd6000 or coadd44000, bags of so
many tasks like paper 001's.

A site is NAME or NAME,KEY=VALUE,... with the keys nodes (4), slots (4 a node),
cores (as slots), memory (16GiB), cache (20GiB a node), speed (1), network
(125e6 bytes/s a node), storage (500e6 bytes/s), wide (125e6 bytes/s),
serial (yes: the storage element serves one read at a time),
fail (30m: the first node fails then).

A what-if changes every site: cache=2x, nodes=0.5x, slots=2x, speed=2x,
network=10x, storage=0.1x, wide=2x; or takes a site away: down=NAME.

Whole sites are played in detail, which takes minutes for thousands of tasks that
read many files each. --light plays a bag of independent tasks in seconds on a
simpler grid: each slot pulls tasks from one scheduler, and the caches
of a site are one that loads the inputs of one task after the other from the
storage element (storage, cache, nodes, slots and speed count). Its policies are
overlap, rest, combined, combined_printed (also with _bytes), locality, each also
with .N for one of the N best, storage_affinity and workqueue (first in, first
out). Compare its figures among each other only.`,
		Example: `  pilotage sim run montage.json.gz --site siteA,nodes=8 --policy locality,rest,overlap
  pilotage sim run montage.json.gz --site a,cache=1GiB --site b --what-if cache=2x --what-if down=b
  pilotage sim run coadd6000 --light --site a,nodes=8 --site b --policy rest,combined.2,storage_affinity`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if f.taskTime < 0 {
				return coded(exitUsage, "--task-time %s: times cannot be negative", f.taskTime)
			}
			if f.light && !c.Flags().Changed("policy") {
				f.policies = lightPolicies
			}
			if err := f.checkLight(); err != nil {
				return usage(err)
			}
			return a.simRun(f, args[0])
		},
	}
	flags := command.Flags()
	flags.BoolVar(&f.light, "light", false, "play a bag of independent tasks on a simpler grid, in seconds")
	flags.StringArrayVar(&f.sites, "site", []string{"siteA"}, "a site (repeatable)")
	flags.StringSliceVar(&f.policies, "policy", []string{matcher.DefaultRank, "overlap", "rest"}, "ranking policies to compare, by name; an expression needs a --policy of its own")
	flags.StringArrayVar(&f.whatIf, "what-if", nil, "also play it with this change (repeatable)")
	flags.DurationVar(&f.taskTime, "task-time", time.Minute, "run time of the tasks of a workflow file, which does not say")
	flags.StringVar(&f.fileSize, "file-size", "10MiB", "size of the files of a workflow file that does not say")
	flags.Uint64Var(&f.seed, "seed", 1, "of all randomness")
	flags.BoolVar(&f.background, "background", false, "load the nodes with other jobs: 0 to 100 %, drawn anew every 5 minutes")
	flags.StringVar(&f.out, "out", "", "folder for report.html with Gantt charts, and the table as CSV")
	return command
}

// checkLight refuses what would change nothing on the simpler grid.
func (f *simRunFlags) checkLight() error {
	if !f.light {
		return nil
	}
	for _, change := range f.whatIf {
		if key, _, _ := strings.Cut(change, "="); key == "network" || key == "wide" {
			return fmt.Errorf("--what-if %s: --light has no traffic between nodes or sites, so it would change nothing", change)
		}
	}
	for _, site := range f.sites {
		for _, setting := range strings.Split(site, ",")[1:] {
			if key, _, _ := strings.Cut(setting, "="); slices.Contains([]string{"network", "wide", "serial", "memory", "cores"}, key) {
				return fmt.Errorf("--site %s: %s does not count with --light", site, key)
			}
		}
	}
	return nil
}

// fileTime is what a task of the Coadd-like bags takes for each of its files.
const fileTime = 40 * time.Second

// readWorkload reads what is to be played, by the ending of its name.
func (f *simRunFlags) readWorkload(name string) (*trace.Workload, error) {
	for _, shape := range []coadd.Shape{coadd.Small(), coadd.Full()} {
		if name == shape.Name {
			return coadd.Generate(shape, 2006).Workload(25_000_000, fileTime), nil
		}
	}
	data, err := readPlain(name)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(strings.TrimSuffix(name, ".gz")) {
	case ".json":
		return wfformat.Read(name, data)
	case ".xml", ".dax":
		return dax.Read(name, data)
	case ".yaml", ".yml":
		return f.fromWorkflow(name, data)
	case ".journal":
		workload, err := journal.Workload(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return workload, nil
	}
	return nil, fmt.Errorf("%s: what is it? Give a file that ends in .json (WfFormat), .xml or .dax (Pegasus), .yaml (a workflow), .journal (of a pilot), or coadd6000 or coadd44000", name)
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

// played is one run of a comparison.
type played struct {
	Policy          string  `json:"policy"`
	WhatIf          string  `json:"what_if,omitempty"`
	MakespanSeconds float64 `json:"makespan_seconds"`
	// MakespanChange and BytesChange are against the same policy as it is: -0.25
	// is a quarter less. Both are 0 without a what-if.
	MakespanChange float64 `json:"makespan_change,omitempty"`
	BytesChange    float64 `json:"bytes_change,omitempty"`
	StorageBytes   float64 `json:"storage_bytes"`
	PeerBytes      float64 `json:"peer_bytes"`
	HitRatio       float64 `json:"hit_ratio"`
	LocalHitRatio  float64 `json:"local_hit_ratio"`
	Evictions      int     `json:"evictions"`
	Utilisation    float64 `json:"utilisation"`
	QueueRequests  int     `json:"queue_requests"`
	Hash           string  `json:"hash"`

	result *grid.Result
}

func (a *app) simRun(f *simRunFlags, name string) error {
	workload, err := f.readWorkload(name)
	if err != nil {
		return usage(err)
	}
	sites, err := parseSites(f.sites)
	if err != nil {
		return usage(err)
	}
	variants := append([]string{""}, f.whatIf...)
	plans := make([][]grid.Site, len(variants))
	for i, change := range variants {
		if plans[i], err = changeSites(sites, change); err != nil {
			return usage(err)
		}
	}
	if len(f.policies) == 0 {
		return usage(errors.New("give at least one --policy"))
	}
	play := lightRun // its scheduler knows the policies
	if !f.light {
		play = grid.Run
		for _, policy := range f.policies {
			if err := matcher.Check(matcher.RankExpression, policy); err != nil {
				return usage(fmt.Errorf("policy %q: %w", policy, err))
			}
		}
	}
	runs := make([]played, len(variants)*len(f.policies))
	err = parallel(len(runs), func(i int) error {
		config := grid.Config{Workload: workload, Sites: plans[i/len(f.policies)], Rank: f.policies[i%len(f.policies)], Seed: f.seed, Noticed: 3 * time.Second, KeepBars: f.out != ""}
		if f.background {
			config.Background = 5 * time.Minute
		}
		result, err := play(config)
		if err != nil {
			return usage(fmt.Errorf("policy %s%s: %w", config.Rank, strings.TrimSuffix(" with "+variants[i/len(f.policies)], " with "), err))
		}
		runs[i] = describeRun(config.Rank, variants[i/len(f.policies)], result)
		return nil
	})
	if err != nil {
		return err
	}
	for i := range runs {
		runs[i].against(runs[i%len(f.policies)])
	}
	return a.reportRuns(f, workload, runs)
}

func describeRun(policy, change string, r *grid.Result) played {
	return played{
		Policy: policy, WhatIf: change, MakespanSeconds: r.Makespan.Seconds(), StorageBytes: r.StorageBytes, PeerBytes: r.PeerBytes,
		HitRatio: r.HitRatio(), LocalHitRatio: r.LocalHitRatio(), Evictions: r.Evictions, Utilisation: r.Utilisation,
		QueueRequests: r.Requests, Hash: r.Hash, result: r,
	}
}

// moved is the bytes that the run moved, over storage elements and between caches.
func (r *played) moved() float64 { return r.StorageBytes + r.PeerBytes }

// against compares with the same policy as things are.
func (r *played) against(base played) {
	r.MakespanChange = r.MakespanSeconds/base.MakespanSeconds - 1
	if base.moved() > 0 {
		r.BytesChange = r.moved()/base.moved() - 1
	}
}

func (a *app) reportRuns(f *simRunFlags, workload *trace.Workload, runs []played) error {
	table := chart.Table{
		Name: "runs", Title: workload.Name,
		Header: []string{"POLICY", "WHAT-IF", "MAKESPAN", "CHANGE", "STORAGE", "PEERS", "CHANGE", "HITS", "LOCAL", "EVICTIONS", "BUSY", "REQUESTS"},
	}
	for _, r := range runs {
		change, slower, more := "-", "-", "-"
		if r.WhatIf != "" {
			change, slower, more = r.WhatIf, relative(r.MakespanChange), relative(r.BytesChange)
		}
		table.Rows = append(table.Rows, []string{
			r.Policy, change, r.result.Makespan.Round(time.Millisecond).String(), slower, task.Bytes(r.StorageBytes).String(), task.Bytes(r.PeerBytes).String(), more,
			fmt.Sprintf("%.3f", r.HitRatio), fmt.Sprintf("%.3f", r.LocalHitRatio), fmt.Sprint(r.Evictions), fmt.Sprintf("%.3f", r.Utilisation), fmt.Sprint(r.QueueRequests),
		})
	}
	advice := adviseAll(runs, len(f.policies))
	if f.out != "" {
		page := &chart.Page{Title: "Simulated: " + workload.Name, Lead: append(slices.Clone(advice), workload.Notes...), Tables: []*chart.Table{&table}}
		for _, r := range runs {
			page.Gantt = append(page.Gantt, ganttOf(r))
		}
		if err := writePage(f.out, page); err != nil {
			return err
		}
	}
	if err := a.print(runs, table.Header, table.Rows); err != nil {
		return err
	}
	if a.output == "table" {
		for _, note := range workload.Notes {
			a.say("note: %s\n", note)
		}
		for _, line := range advice {
			a.say("%s\n", line)
		}
	}
	return nil
}

// relative shows a change of so much of what there was.
func relative(change float64) string { return fmt.Sprintf("%+.1f %%", 100*change) }

// adviseAll says which policy to take as things are, and what each what-if would
// bring. Runs stand by what-if, so many policies each.
func adviseAll(runs []played, policies int) (lines []string) {
	base := advise(runs[:policies])
	lines = append(lines, fmt.Sprintf("take %s: %s, %s moved (shortest makespan; within 1 %% of it, fewest bytes)",
		base.Policy, base.result.Makespan.Round(time.Millisecond), task.Bytes(base.moved())))
	for at := policies; at < len(runs); at += policies {
		best := advise(runs[at : at+policies])
		whatIf := best.WhatIf
		best.against(base)
		lines = append(lines, fmt.Sprintf("with %s take %s: %s (%s), %s moved (%s)",
			whatIf, best.Policy, best.result.Makespan.Round(time.Millisecond), relative(best.MakespanChange), task.Bytes(best.moved()), relative(best.BytesChange)))
	}
	return lines
}

// advise picks the shortest makespan; among those within 1 % of it the one that
// moves the fewest bytes.
func advise(runs []played) played {
	best := runs[0]
	for _, r := range runs {
		if r.MakespanSeconds < best.MakespanSeconds {
			best = r
		}
	}
	shortest := best.MakespanSeconds
	for _, r := range runs {
		if r.MakespanSeconds <= 1.01*shortest && r.moved() < best.moved() {
			best = r
		}
	}
	return best
}

func ganttOf(r played) *chart.Gantt {
	g := &chart.Gantt{Title: strings.TrimSpace(r.Policy + " " + r.WhatIf), End: r.result.Makespan}
	rows := make(map[int]int)
	for _, bar := range r.result.Bars {
		row, known := rows[bar.Row]
		if !known {
			row = len(rows)
			rows[bar.Row] = row
			g.Rows = append(g.Rows, fmt.Sprintf("node %d slot %d", bar.Row/grid.RowsPerNode, bar.Row%grid.RowsPerNode))
		}
		bar.Row = row
		g.Bars = append(g.Bars, bar)
	}
	return g
}
