package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/sim/chart"
	"github.com/pilotage-grid/pilotage/sim/grid"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// played is one run of a comparison. One that could not be played has no
// figures.
type played struct {
	Policy string `json:"policy"`
	WhatIf string `json:"what_if,omitempty"`
	Error  string `json:"error,omitempty"`
	*figures
}

// figures are what came out of a run.
type figures struct {
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
	Replicas       int     `json:"replicas,omitempty"` // that replica policies had made
	Utilisation    float64 `json:"utilisation"`
	QueueRequests  int     `json:"queue_requests"`
	Hash           string  `json:"hash"`

	result *grid.Result
}

func describeRun(policy, change string, r *grid.Result, err error) played {
	if err != nil {
		return played{Policy: policy, WhatIf: change, Error: err.Error()}
	}
	return played{Policy: policy, WhatIf: change, figures: &figures{
		MakespanSeconds: r.Makespan.Seconds(), StorageBytes: r.StorageBytes, PeerBytes: r.PeerBytes,
		HitRatio: r.HitRatio(), LocalHitRatio: r.LocalHitRatio(), Evictions: r.Evictions, Replicas: r.Replicas, Utilisation: r.Utilisation,
		QueueRequests: r.Requests, Hash: r.Hash, result: r,
	}}
}

// failedRuns says what could not be played, and why.
func failedRuns(runs []played) error {
	var texts []string
	for _, r := range runs {
		if r.figures == nil {
			texts = append(texts, fmt.Sprintf("policy %s: %s", strings.TrimSuffix(r.Policy+" with "+r.WhatIf, " with "), r.Error))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d runs could not be played to their end:\n  %s", len(texts), len(runs), strings.Join(texts, "\n  "))
}

// moved is the bytes that the run moved, over storage elements and between caches.
func (r *figures) moved() float64 { return r.StorageBytes + r.PeerBytes }

// against compares with the same policy as things are, if both could be played.
func (r *played) against(base played) {
	if r.figures == nil || base.figures == nil {
		return
	}
	r.MakespanChange = r.MakespanSeconds/base.MakespanSeconds - 1
	if base.moved() > 0 {
		r.BytesChange = r.moved()/base.moved() - 1
	}
}

var runsHeader = []string{"POLICY", "WHAT-IF", "MAKESPAN", "(CHANGE)", "STORAGE", "PEERS", "(CHANGE)", "HITS", "LOCAL", "EVICTIONS", "BUSY", "REQUESTS"}

// row is the run's line of the table. Changes are against the same policy as
// things are.
func (r *played) row(compared bool) []string {
	what := r.WhatIf
	if what == "" {
		what = "as it is"
	}
	if r.figures == nil {
		return append([]string{r.Policy, what, "failed"}, slices.Repeat([]string{""}, len(runsHeader)-3)...)
	}
	slower, more := "", ""
	if compared && r.WhatIf != "" {
		slower, more = relative(r.MakespanChange), relative(r.BytesChange)
	}
	return []string{
		r.Policy, what, r.result.Makespan.Round(time.Millisecond).String(), slower, task.Bytes(r.StorageBytes).String(), task.Bytes(r.PeerBytes).String(), more,
		fmt.Sprintf("%.3f", r.HitRatio), fmt.Sprintf("%.3f", r.LocalHitRatio), fmt.Sprint(r.Evictions), fmt.Sprintf("%.3f", r.Utilisation), fmt.Sprint(r.QueueRequests),
	}
}

func (o *console) reportRuns(f *simRunFlags, workload *trace.Workload, runs []played) error {
	table := chart.Table{Name: "runs", Title: workload.Name, Header: runsHeader}
	for i, r := range runs {
		table.Rows = append(table.Rows, r.row(runs[i%len(f.policies)].figures != nil))
	}
	advice := adviseAll(runs, len(f.policies))
	if f.out != "" {
		page := &chart.Page{Title: "Simulated: " + workload.Name, Lead: append(slices.Clone(advice), workload.Notes...), Tables: []*chart.Table{&table}}
		for _, r := range runs {
			if r.figures != nil {
				page.Gantt = append(page.Gantt, ganttOf(r))
			}
		}
		if err := o.writePage(f.out, page); err != nil {
			return err
		}
	}
	if err := o.print(runs, table.Header, table.Rows); err != nil {
		return err
	}
	if o.output == "table" {
		for _, note := range workload.Notes {
			o.say("note: %s\n", note)
		}
		for _, line := range advice {
			o.say("%s\n", line)
		}
	}
	return nil
}

// relative shows a change of so much of what there was.
func relative(change float64) string {
	if text := fmt.Sprintf("%+.1f %%", 100*change); text != "+0.0 %" && text != "-0.0 %" {
		return text
	}
	return "same"
}

// adviseAll says which policy to take as things are, and what each what-if would
// bring. Runs stand by what-if, so many policies each.
func adviseAll(runs []played, policies int) (lines []string) {
	base, known := advise(runs[:policies])
	if known {
		lines = append(lines, fmt.Sprintf("take %s%s: %s, %s moved (shortest makespan; within 1 %% of it, fewest bytes)",
			base.Policy, asGood(base, runs[:policies]), base.result.Makespan.Round(time.Millisecond), task.Bytes(base.moved())))
	}
	for at := policies; at < len(runs); at += policies {
		best, found := advise(runs[at : at+policies])
		if !found {
			continue
		}
		slower, more := "", ""
		if known {
			compared := played{figures: &figures{MakespanSeconds: best.MakespanSeconds, StorageBytes: best.StorageBytes, PeerBytes: best.PeerBytes}}
			compared.against(base)
			slower, more = " ("+relative(compared.MakespanChange)+")", " ("+relative(compared.BytesChange)+")"
		}
		lines = append(lines, fmt.Sprintf("with %s take %s%s: %s%s, %s moved%s", best.WhatIf, best.Policy, asGood(best, runs[at:at+policies]),
			best.result.Makespan.Round(time.Millisecond), slower, task.Bytes(best.moved()), more))
	}
	return lines
}

// advise picks the shortest makespan; among those within 1 % of it the one that
// moves the fewest bytes, and of these again the shortest. There is none where
// none could be played.
func advise(runs []played) (best played, known bool) {
	shortest := math.Inf(1)
	for _, r := range runs {
		if r.figures != nil {
			shortest = min(shortest, r.MakespanSeconds)
		}
	}
	for _, r := range runs {
		if r.figures == nil || r.MakespanSeconds > 1.01*shortest {
			continue
		}
		if !known || cmp.Or(cmp.Compare(r.moved(), best.moved()), cmp.Compare(r.MakespanSeconds, best.MakespanSeconds)) < 0 {
			best, known = r, true
		}
	}
	return best, known
}

// asGood names the other policies that take as long and move as much as the one
// to take.
func asGood(best played, runs []played) string {
	var others []string
	for _, r := range runs {
		if r.figures != nil && r.Policy != best.Policy && r.MakespanSeconds == best.MakespanSeconds && r.moved() == best.moved() {
			others = append(others, r.Policy)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return " (" + strings.Join(others, ", ") + " as good)"
}

func ganttOf(r played) *chart.Gantt {
	g := &chart.Gantt{Title: strings.TrimSpace(r.Policy + " " + r.WhatIf), End: r.result.Makespan}
	var rows []int // in use
	for _, bar := range r.result.Bars {
		rows = append(rows, bar.Row)
	}
	slices.Sort(rows)
	rows = slices.Compact(rows)
	for _, row := range rows {
		g.Rows = append(g.Rows, fmt.Sprintf("%s slot %d", r.result.Nodes[row/grid.RowsPerNode], row%grid.RowsPerNode))
	}
	for _, bar := range r.result.Bars {
		bar.Row, _ = slices.BinarySearch(rows, bar.Row)
		g.Bars = append(g.Bars, bar)
	}
	return g
}
