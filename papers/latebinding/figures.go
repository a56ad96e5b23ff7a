package latebinding

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/bench"
	"github.com/pilotage-grid/pilotage/papers/experiment"
	"github.com/pilotage-grid/pilotage/sim/chart"
)

// lab has all runs of the experiment of 004.
type lab struct {
	Paper
	runs   []*labRun
	traces map[string]*record // of figures 5 and 6, by architecture
}

// labRun is a run with its place in the grid.
type labRun struct {
	*record
	size         int
	architecture string
}

// figureOf is a figure over the testbeds.
type figureOf struct {
	number  int
	title   string
	what    string
	quickly bool // the quantity is a time that Speed has shortened
	of      func(*record) float64
}

var figures = []figureOf{
	{2, "task queue requests", "requests of a run", false, requestsOf},
	{3, "inter-task delay", "mean time from a job's end to the next one's start (s)", true, func(r *record) float64 { return r.Result.SlotChange.Mean }},
	{4, "turnaround", "time of a workflow (s)", true, func(r *record) float64 { return r.Result.Makespan }},
	{7, "total hit ratio", "files read from some pilot's cache / all", false, func(r *record) float64 { return r.Result.Cache.TotalHits }},
	{8, "local hit ratio", "files read from the own cache / all", false, func(r *record) float64 { return r.Result.Cache.LocalHits }},
}

// requestsOf are the requests of the protocol that was run.
func requestsOf(r *record) float64 {
	if r.Protocol == AsInPaper {
		return r.PaperRequests
	}
	return r.Result.Requests
}

// mean of something over workflow types and seeds, with the standard deviation
// of that mean; NaN where nothing was run.
func (l *lab) mean(protocol Protocol, architecture string, size int, of func(*record) float64) (mean, spread float64) {
	var values []float64
	for _, run := range l.runs {
		if run.Protocol == protocol && run.architecture == architecture && run.size == size {
			values = append(values, of(run.record))
		}
	}
	if len(values) == 0 {
		return math.NaN(), 0
	}
	return experiment.MeanOf(values)
}

// report draws and judges.
func (l *lab) report() *experiment.Report {
	r := &experiment.Report{Paper: "004", Title: "Paper 004: distributed scheduling and data sharing in late-binding overlays", Choices: l.choices()}
	for _, protocol := range l.Protocols {
		for _, f := range figures {
			r.Figures = append(r.Figures, l.figure(f, protocol))
		}
	}
	for i, a := range []architecture{architectures[preDHT], architectures[distributed]} {
		if run := l.traces[a.name]; run != nil {
			r.Figures = append(r.Figures, overTime(5+i, a.name, run)...)
		}
	}
	r.Tables = []*chart.Table{l.table()}
	r.Findings = l.findings()
	return r
}

// choices says what was run.
func (l *lab) choices() []string {
	grid := "Pilots and tasks:"
	for i := range sizes {
		size := l.size(i)
		grid += fmt.Sprintf(" %d and %d (the paper's %d and %d);", size[0], size[1], sizes[i][0], sizes[i][1])
	}
	o := l.trial(AsInPaper, architectures[preDHT], 0, bench.Serial, 1)
	choices := []string{
		strings.TrimSuffix(grid, ";") + fmt.Sprintf(". Two sites, three workflow types, %d runs of each. Points are means over the types and runs, bars standard deviations of the mean.", l.Seeds),
		fmt.Sprintf("Times are the paper's by %g: tasks of 3.3 minutes take %.2f s (each varies by 30 %%), the period of 20 s is %.3f s, a heartbeat (whose period the paper does not give) is due every %.3f s.",
			l.Speed, o.TaskTime.Seconds(), o.RoundPeriod.Seconds(), scaled(heartbeats, o.TaskTime).Seconds()),
		"Most of figure 2's requests are empty calls, sent to imitate the paper's protocol; of the messages that it names the paper does not say how many there are, and the rate of heartbeats was fitted. What the queue served, and what of it was the product's own, stands beside them in the claims and in the table of runs.",
		"The task queue is a process with its database on disk; pilots are whole and share one process of this machine; their bytes are carried by: " + string(l.Transport) + ".",
		"Figures whose names end in -ours: rounds driven by events, one task given early, no messages but ours.",
	}
	if l.SingleScale > 0 {
		single := l.single(architectures[preDHT])
		choices = append(choices, fmt.Sprintf("Figures 5 and 6: %d pilots, %d tasks, times by %g.", single.Pilots, single.Tasks, l.SingleSpeed))
	}
	return choices
}

func (l *lab) figure(f figureOf, protocol Protocol) *chart.Figure {
	figure := &chart.Figure{
		Name: fmt.Sprintf("fig%d", f.number), Title: fmt.Sprintf("Fig. %d: %s", f.number, f.title),
		X: "tasks (sizes of the testbed)", Y: f.what, LogX: true,
	}
	if protocol == Ours {
		figure.Name, figure.Title = figure.Name+"-ours", figure.Title+", with our defaults"
	}
	if f.quickly {
		figure.Title += fmt.Sprintf(" (times by %g)", l.Speed)
	}
	for _, a := range architectures {
		s := chart.Series{Name: a.name}
		for size := range sizes {
			if mean, spread := l.mean(protocol, a.name, size, f.of); !math.IsNaN(mean) {
				s.Points = append(s.Points, chart.Point{X: float64(l.size(size)[1]), Y: mean, Spread: spread})
			}
		}
		figure.Series = append(figure.Series, s)
	}
	return figure
}

// overTime draws the two plots of figure 5 or 6. The paper's have two axes;
// here the second quantity is divided by a power of ten, named beside it.
func overTime(number int, name string, run *record) []*chart.Figure {
	r, t := &run.Result, run.Trace
	title := fmt.Sprintf("%s, %d pilots, %d tasks", name, r.Pilots, r.Tasks)
	return []*chart.Figure{
		{
			Name: fmt.Sprintf("fig%d-slots", number), Title: fmt.Sprintf("Fig. %d: %s", number, title), X: "time (s)", Y: "slots",
			Series: []chart.Series{{Name: "running jobs", Points: t.Running}, bench.Beside("queue requests until then", t.Messages, t.Running)},
		},
		{
			Name: fmt.Sprintf("fig%d-delay", number), Title: fmt.Sprintf("Fig. %d: %s", number, title), X: "time (s)", Y: "inter-task delay (s)",
			Series: []chart.Series{{Name: "inter-task delay", Points: t.Delays}, bench.Beside("requests without answer", t.Waiting, t.Delays)},
		},
	}
}

// table lists every run.
func (l *lab) table() *chart.Table {
	t := &chart.Table{Name: "runs", Title: "All runs", Header: []string{
		"protocol", "architecture", "pilots", "tasks", "workflow", "seed", "task s", "requests per task", "own", "of paper 004",
		"delay mean s", "delay p50 s", "delay p99 s", "makespan s", "first fill s", "total hits", "local hits", "best possible",
		"lost", "duplicates", "CPU s", "queue CPU s", "load before", "load after",
	}}
	runs := slices.Clone(l.runs)
	for _, a := range architectures {
		if run := l.traces[a.name]; run != nil {
			runs = append(runs, &labRun{record: run, architecture: a.name + ", single"})
		}
	}
	for _, run := range runs {
		r := &run.Result
		t.Rows = append(t.Rows, []string{
			string(run.Protocol), run.architecture, fmt.Sprint(r.Pilots), fmt.Sprint(r.Tasks), string(r.Workflow), fmt.Sprint(r.Seed),
			short(r.TaskSeconds), short(run.servedPerTask()), short(run.ownPerTask()), short(run.paperPerTask()),
			short(r.SlotChange.Mean), short(r.SlotChange.P50), short(r.SlotChange.P99), short(r.Makespan), short(r.FirstFill),
			short(r.Cache.TotalHits), short(r.Cache.LocalHits), short(r.Cache.BestLocalHits),
			fmt.Sprint(r.LostTasks), fmt.Sprint(r.Duplicates), short(r.CPU), short(r.QueueCPU), r.LoadBefore, r.LoadAfter,
		})
	}
	return t
}

func short(v float64) string { return fmt.Sprintf("%.4g", v) }
