package experiment

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/papers/cluster"
	"github.com/pilotage-grid/pilotage/sim/chart"
)

// alphas of figure 4 of 003, and the copies that follow from them (4.2).
var alphas003 = []struct{ alpha, copies int }{{20, 0}, {15, 1}, {10, 2}, {5, 3}}

// starts003 are costs of a task's start, which decides how much reading is of a
// task's time.
var starts003 = []time.Duration{0, 100 * time.Millisecond, startCost, 770 * time.Millisecond}

// lab003 holds the runs of 003.
type lab003 struct {
	Options
	fifo, undelayed, delayed, greedy sample // figure 3
	shared                           map[int]*cluster.Result
	atOnce                           map[int]*cluster.Result
	byStart                          []startRuns
	layouts                          []layoutRuns
}

// layoutRuns are figure 3 with the files laid out otherwise.
type layoutRuns struct {
	name string
	reading
	fifo, rule sample
}

// startRuns are both figures with another cost of a start.
type startRuns struct {
	start      time.Duration
	fifo, rule sample
	shared     map[int]*cluster.Result
}

// entered003 is the time from one task's entry to the next one's: each is a pass,
// so that 4 tasks run and 36 wait when all have entered (003, 4.2).
const entered003 = time.Millisecond

// twice are figure 3's tasks: ten files a node, so two copies of each.
var twice = reading{tasks: 20, size: 512e6, copies: 2, holders: testbedNodes}

// layouts003 are other readings of "ten files on each node".
var layouts003 = []layoutRuns{
	{name: "one copy each, five a node", reading: reading{20, 512e6, 1, testbedNodes}},
	{name: "one copy each, ten on each of two nodes", reading: reading{20, 512e6, 1, 2}},
}

// Run003 repeats figures 3 and 4 of paper 003.
func Run003(options Options) (*Report, error) {
	if options.Seeds == 0 {
		options.Seeds = 30
	}
	l := &lab003{Options: options}
	if err := l.run(); err != nil {
		return nil, fmt.Errorf("paper 003: %w", err)
	}
	return &Report{
		Paper: "003", Title: "Paper 003: replicas by demand", Choices: append(choicesOfTestbed(), choices003()...),
		Findings: l.findings(), Figures: []*chart.Figure{l.progress()}, Gantt: l.gantts(),
		Tables: []*chart.Table{l.figure3(), l.figure4(), l.starts()},
	}, nil
}

func choices003() []string {
	return []string{
		"003 gives neither beta nor the number of passes that a task waits for a local node. Figures 3 and 4 are shown with 000's rule (beta 0.8, Delay 2).",
		"Figure 3: 20 files of 512 MB, each on two nodes, one task each in random order. Figure 4: 40 tasks that enter 1 ms apart and read the same 512 MB, at first on one node. Each entry is a pass, so when all have entered 4 run and 36 wait, as in the paper. Beside it all enter at once, in one pass: then one runs and 39 wait for its node.",
	}
}

func (l *lab003) run() (err error) {
	for _, s := range []struct {
		rule scheduling
		into *sample
	}{{torque, &l.fifo}, {dad(0.8, 0), &l.undelayed}, {best, &l.delayed}, {greedy, &l.greedy}} {
		if *s.into, err = l.play(s.rule, twice.config); err != nil {
			return err
		}
	}
	if l.shared, err = oneFile(startCost, entered003); err != nil {
		return err
	}
	if l.atOnce, err = oneFile(startCost, 0); err != nil {
		return err
	}
	for _, layout := range layouts003 {
		if layout.fifo, err = l.play(torque, layout.config); err != nil {
			return err
		}
		if layout.rule, err = l.play(best, layout.config); err != nil {
			return err
		}
		l.layouts = append(l.layouts, layout)
	}
	for _, start := range starts003 {
		runs := startRuns{start: start}
		with := func(seed uint64) cluster.Config {
			c := twice.config(seed)
			c.Hardware.Start = start
			return c
		}
		if runs.fifo, err = l.play(torque, with); err != nil {
			return err
		}
		if runs.rule, err = l.play(best, with); err != nil {
			return err
		}
		if runs.shared, err = oneFile(start, entered003); err != nil {
			return err
		}
		l.byStart = append(l.byStart, runs)
	}
	return nil
}

// oneFile is figure 4: 40 tasks on one file, by alpha.
func oneFile(start, apart time.Duration) (map[int]*cluster.Result, error) {
	results := make(map[int]*cluster.Result)
	for _, a := range alphas003 {
		c := sharedFile(start, apart)
		c.KeepBars, c.Solver, c.Rank, c.Replicas = true, best.solver, best.rank, fmt.Sprintf("alpha(%d)", a.alpha)
		var err error
		if results[a.alpha], err = cluster.Run(c); err != nil {
			return nil, fmt.Errorf("alpha %d: %w", a.alpha, err)
		}
	}
	return results, nil
}

// sharedFile is the workload of figure 4, its tasks entering so far apart.
func sharedFile(start, apart time.Duration) cluster.Config {
	c := testbed()
	c.Hardware.Start = start
	c.Files = []cluster.File{{Size: 512e6, Holders: []int{0}}}
	for i := range 40 {
		c.Tasks = append(c.Tasks, cluster.Task{Files: []int{0}, Enters: time.Duration(i) * apart})
	}
	return c
}

func (l *lab003) figure3() *chart.Table {
	t := &chart.Table{
		Name: "fig3", Title: fmt.Sprintf("Fig. 3: 20 tasks on 20 files of 512 MB, two copies each, %d orders", l.Seeds),
		Header: []string{"scheduler", "makespan (s)", "of FIFO", "throughput (MB/s)", "local tasks"},
	}
	add := func(name string, runs, fifo sample) {
		t.Rows = append(t.Rows, []string{
			name, withSpread(runs.mean(seconds)), fmt.Sprintf("%.2f", runs.average(seconds)/fifo.average(seconds)),
			withSpread(runs.mean(megabytes)), withSpread(runs.mean(localTasks)),
		})
	}
	add(torque.name, l.fifo, l.fifo)
	add("locality, Delay 0", l.undelayed, l.fifo)
	add("locality, Delay 2", l.delayed, l.fifo)
	add(greedy.name, l.greedy, l.fifo)
	for _, layout := range l.layouts {
		add(layout.name+": FIFO", layout.fifo, layout.fifo)
		add(layout.name+": locality, Delay 2", layout.rule, layout.fifo)
	}
	return t
}

func (l *lab003) figure4() *chart.Table {
	t := &chart.Table{
		Name: "fig4", Title: "Fig. 4: 40 tasks on one file of 512 MB by alpha",
		Header: []string{"alpha", "new copies", "copied by (s)", "done in 5 s", "makespan (s)", "local tasks", "makespan if all enter at once (s)", "local tasks"},
	}
	for _, a := range alphas003 {
		r, other := l.shared[a.alpha], l.atOnce[a.alpha]
		copied := "-"
		if n := len(r.Copies); n > 0 {
			copied = fmt.Sprintf("%.1f", r.Copies[n-1].Over.Seconds())
		}
		t.Rows = append(t.Rows, []string{
			fmt.Sprint(a.alpha), fmt.Sprint(len(r.Copies)), copied, fmt.Sprint(doneBy(r, 5*time.Second)), fmt.Sprintf("%.2f", seconds(r)), fmt.Sprint(r.Local()),
			fmt.Sprintf("%.2f", seconds(other)), fmt.Sprint(other.Local()),
		})
	}
	return t
}

// starts is how much depends on the cost of a start.
func (l *lab003) starts() *chart.Table {
	t := &chart.Table{
		Name: "starts", Title: "By the cost of a task's start: figure 3's makespan over FIFO's, figure 4's makespans in seconds",
		Header: []string{"start (s)", "Fig. 3", "alpha 20", "alpha 15", "alpha 10", "alpha 5", "best over alpha 20"},
	}
	for _, runs := range l.byStart {
		row := []string{fmt.Sprint(runs.start.Seconds()), fmt.Sprintf("%.2f", runs.rule.average(seconds)/runs.fifo.average(seconds))}
		fastest := seconds(runs.shared[20])
		for _, a := range alphas003 {
			own := seconds(runs.shared[a.alpha])
			fastest = min(fastest, own)
			row = append(row, fmt.Sprintf("%.1f", own))
		}
		t.Rows = append(t.Rows, append(row, fmt.Sprintf("%.2f", fastest/seconds(runs.shared[20]))))
	}
	return t
}

func doneBy(r *cluster.Result, at time.Duration) (count int) {
	for i := range r.Tasks {
		if r.Tasks[i].Ended <= at {
			count++
		}
	}
	return count
}

// progress draws figure 4 as tasks done over time.
func (l *lab003) progress() *chart.Figure {
	f := &chart.Figure{Name: "fig4", Title: "Fig. 4: 40 tasks on one file, by alpha", X: "time (s)", Y: "tasks done"}
	for _, a := range alphas003 {
		r := l.shared[a.alpha]
		s := chart.Series{Name: fmt.Sprintf("alpha %d", a.alpha)}
		for at := time.Duration(0); at <= l.shared[20].Makespan+time.Second; at += time.Second / 2 {
			s.Points = append(s.Points, chart.Point{X: at.Seconds(), Y: float64(doneBy(r, at))})
		}
		f.Series = append(f.Series, s)
	}
	return f
}

func (l *lab003) gantts() []*chart.Gantt {
	all := []*chart.Gantt{
		gantt("fig3a", "Fig. 3: Torque alone", l.fifo[0], taskName),
		gantt("fig3b", "Fig. 3: by locality", l.delayed[0], taskName),
	}
	for _, a := range alphas003 {
		all = append(all, gantt(fmt.Sprintf("fig4-alpha%d", a.alpha), fmt.Sprintf("Fig. 4: alpha %d", a.alpha), l.shared[a.alpha], taskName))
	}
	return all
}
