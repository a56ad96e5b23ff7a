package experiment

import (
	"fmt"

	"github.com/pilotage-grid/pilotage/papers/cluster"
	"github.com/pilotage-grid/pilotage/sim/chart"
)

// lab000 holds the runs of 000.
type lab000 struct {
	Options
	fifo, dad, greedy sample // thput-gfpio and readgf: the same runs
	more              sample // ten times as many orders, by FIFO
	blast             blast
	mix               map[string]sample
	penalties         []penaltyRuns
	orders            []map[string]sample // by submission
}

// penaltyRuns are the mix with another penalty of Blastn.
type penaltyRuns struct {
	blast
	byDelay map[int]sample
}

// Run000 repeats figures 3 to 9 of paper 000.
func Run000(options Options) (*Report, error) {
	if options.Seeds == 0 {
		options.Seeds = 30
	}
	l := &lab000{Options: options}
	for _, step := range []func() error{l.read, l.runMix, l.runPenalties, l.runOrders} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("paper 000: %w", err)
		}
	}
	r := &Report{Paper: "000", Title: "Paper 000: data-aware dispatch", Choices: append(choicesOfTestbed(), choicesOfMix(l.blast)...)}
	equations, _ := handTable()
	r.Tables = []*chart.Table{equations, figure3(), l.readingTable(), l.mixTable(), l.penaltyTable(), l.orderTable()}
	r.Figures = append([]*chart.Figure{throughputs(map[string]*cluster.Result{torque.name: l.fifo[0], best.name: l.dad[0]}, torque.name, best.name)}, l.mixFigures()...)
	r.Gantt = l.gantts()
	var err error
	if r.Findings, err = l.findings(); err != nil {
		return nil, fmt.Errorf("paper 000: %w", err)
	}
	return r, nil
}

func (l *lab000) read() (err error) {
	if l.fifo, err = l.play(torque, readgf.config); err != nil {
		return err
	}
	if l.dad, err = l.play(best, readgf.config); err != nil {
		return err
	}
	many := l.Options
	many.Seeds *= 10
	if l.more, err = many.play(torque, readgf.config); err != nil {
		return err
	}
	l.greedy, err = l.play(greedy, readgf.config)
	return err
}

func (l *lab000) runMix() (err error) {
	if l.blast, err = mix.calibrate(l.Options); err != nil {
		return err
	}
	l.mix, err = l.blast.sweep(l.Options, settings000()...)
	return err
}

func (l *lab000) runPenalties() error {
	for _, penalty := range []float64{1, 2, 4, 8} {
		other := mix
		other.penalty = penalty
		other, err := other.calibrate(l.Options)
		if err != nil {
			return err
		}
		runs := penaltyRuns{other, make(map[int]sample)}
		for _, delay := range []int{0, 2, 4} {
			if runs.byDelay[delay], err = l.play(dad(0.8, delay), other.config); err != nil {
				return err
			}
		}
		l.penalties = append(l.penalties, runs)
	}
	return nil
}

// inOrders are the schedulers that are held against FIFO in each order.
var inOrders = []scheduling{dad(0.8, 0), best, dad(0.8, 4), dad(0, 2), dad(1, 2)}

func (l *lab000) runOrders() error {
	for order := range submissions {
		other := mix
		other.order = order
		other, err := other.calibrate(l.Options)
		if err != nil {
			return err
		}
		runs, err := other.sweep(l.Options, inOrders...)
		if err != nil {
			return err
		}
		l.orders = append(l.orders, runs)
	}
	return nil
}

func (l *lab000) orderTable() *chart.Table {
	t := &chart.Table{
		Name: "orders", Title: "BLAST mix by the order of submission, each calibrated on FIFO = 266.9 s: makespan over FIFO's (local tasks)",
		Header: []string{"order"},
	}
	for _, s := range inOrders {
		t.Header = append(t.Header, s.name)
	}
	for order, runs := range l.orders {
		row := []string{submission(order).String()}
		for _, s := range inOrders {
			row = append(row, fmt.Sprintf("%.2f (%.1f)", runs[s.name].average(seconds)/blastFIFO, runs[s.name].average(localTasks)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func choicesOfMix(b blast) []string {
	return []string{
		"thput-gfpio and readgf are the same 20 tasks on 20 files of 1 GB in one queue, in random order; DAD has beta 0.8 and Delay 2. Means over the seeds.",
		fmt.Sprintf("BLAST: %d Blastx tasks, then %d Blastn tasks that compute %g as long; computing times within a kind are lognormal with a deviation of %g of their logarithm. Two nodes hold Blastx's files, the other two Blastn's, as in figure 4. Reading remotely lengthens a Blastx task by 17.28 %% (the paper) and a Blastn task by %.0f %% (not given: see the table of penalties). Blastx's mean computing time of %.2f s makes FIFO alone 266.9 s; nothing else is fitted.",
			b.blastx, b.blastn, b.share, spreadOfQueries, 100*b.penalty, b.seconds),
	}
}

func (l *lab000) readingTable() *chart.Table {
	t := &chart.Table{
		Name: "reading", Title: fmt.Sprintf("thput-gfpio and readgf: 20 tasks on 20 files of 1 GB, %d orders", l.Seeds),
		Header: []string{"scheduler", "throughput (MB/s)", "makespan (s)", "local tasks"},
	}
	for _, s := range []struct {
		name string
		runs sample
	}{{torque.name, l.fifo}, {best.name, l.dad}, {greedy.name, l.greedy}} {
		t.Rows = append(t.Rows, []string{s.name, withSpread(s.runs.mean(megabytes)), withSpread(s.runs.mean(seconds)), withSpread(s.runs.mean(localTasks))})
	}
	return t
}

func withSpread(mean, spread float64) string { return fmt.Sprintf("%.2f +- %.2f", mean, spread) }

// mixTable is figure 7.
func (l *lab000) mixTable() *chart.Table {
	t := &chart.Table{
		Name: "fig7", Title: fmt.Sprintf("Fig. 7: BLAST mix, makespan and local tasks of %d, %d draws", l.blast.blastx+l.blast.blastn, l.Seeds),
		Header: []string{"scheduler", "makespan (s)", "of FIFO", "local tasks"},
	}
	for _, s := range settings000() {
		t.Rows = append(t.Rows, []string{s.name, withSpread(l.mix[s.name].mean(seconds)), fmt.Sprintf("%.3f", l.ratio(s.name)), withSpread(l.mix[s.name].mean(localTasks))})
	}
	return t
}

// ratio is a scheduler's makespan over FIFO's, of the mix.
func (l *lab000) ratio(name string) float64 {
	return l.mix[name].average(seconds) / l.mix[torque.name].average(seconds)
}

func (l *lab000) penaltyTable() *chart.Table {
	t := &chart.Table{
		Name: "penalties", Title: "BLAST mix by the penalty of a remote Blastn task, each calibrated on FIFO = 266.9 s: makespan over FIFO's (local tasks)",
		Header: []string{"penalty", "Blastx computes (s)", "Delay 0", "Delay 2", "Delay 4"},
	}
	for _, p := range l.penalties {
		row := []string{fmt.Sprintf("%.0f %%", 100*p.penalty), fmt.Sprintf("%.2f", p.seconds)}
		for _, delay := range []int{0, 2, 4} {
			row = append(row, fmt.Sprintf("%.2f (%.1f)", p.byDelay[delay].average(seconds)/blastFIFO, p.byDelay[delay].average(localTasks)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// mixFigures draw figure 7, and the local tasks behind it.
func (l *lab000) mixFigures() []*chart.Figure {
	draw := func(name, title, what string, of func(*cluster.Result) float64) *chart.Figure {
		f := &chart.Figure{Name: name, Title: title, X: "Delay (dispatch passes)", Y: what}
		add := func(name string, of func(delay int) (mean, spread float64)) {
			s := chart.Series{Name: name}
			for _, delay := range delays000 {
				mean, spread := of(delay)
				s.Points = append(s.Points, chart.Point{X: float64(delay), Y: mean, Spread: spread})
			}
			f.Series = append(f.Series, s)
		}
		add("FIFO", func(int) (float64, float64) { return l.mix[torque.name].mean(of) })
		for _, beta := range betas000 {
			add(fmt.Sprintf("beta %g", beta), func(delay int) (float64, float64) { return l.mix[dad(beta, delay).name].mean(of) })
		}
		return f
	}
	return []*chart.Figure{
		draw("fig7", "Fig. 7: BLAST mix by Delay and beta", "makespan (s)", seconds),
		draw("fig7-local", "Fig. 7: tasks that read locally", "local tasks of 60", localTasks),
	}
}

// gantts are figures 6, 8 and 9, of the first seed.
func (l *lab000) gantts() []*chart.Gantt {
	of := func(name, title, runs string) *chart.Gantt {
		return gantt(name, title, l.mix[runs][0], l.blast.rowName)
	}
	return []*chart.Gantt{
		gantt("fig6a", "Fig. 6a: readgf, FIFO", l.fifo[0], taskName),
		gantt("fig6b", "Fig. 6b: readgf, "+best.name, l.dad[0], taskName),
		of("fig8a", "Fig. 8: BLAST, FIFO", torque.name),
		of("fig8b", "Fig. 8: BLAST, "+best.name, best.name),
		of("fig9a", "Fig. 9: BLAST, beta 0, Delay 2", dad(0, 2).name),
		of("fig9b", "Fig. 9: BLAST, beta 1, Delay 2", dad(1, 2).name),
		of("fig9c", "Fig. 9: BLAST, beta 0.8, Delay 0", dad(0.8, 0).name),
		of("fig9d", "Fig. 9: BLAST, beta 0.8, Delay 4", dad(0.8, 4).name),
	}
}
