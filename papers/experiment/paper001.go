package experiment

import (
	"fmt"

	"github.com/pilotage-grid/pilotage/papers/worksites"
	"github.com/pilotage-grid/pilotage/sim/chart"
)

// sweep is one parameter that an experiment varies.
type sweep struct {
	axis   string
	values []float64
	set    func(s *setting, value float64)
}

var (
	capacities = sweep{"capacity of a data server (files)", []float64{3000, 6000, 15000, 30000}, func(s *setting, v float64) { s.capacity = int(v) }}
	workers    = sweep{"workers per site", []float64{2, 4, 6, 8}, func(s *setting, v float64) { s.workers, s.background = int(v), false }}
	// oneServer has all sites share the file server's link, of so many MB/s that
	// workers wait as in table 4.
	oneServer  = sweep{"workers per site", workers.values, func(s *setting, v float64) { workers.set(s, v); s.server = 2 }}
	quietCosts = sweep{"unit computation cost (MFLOP a file)", []float64{50, 200, 400, 600, 800, 1000}, func(s *setting, v float64) { s.cost, s.background = v, false }}
	costs      = sweep{"unit computation cost (MFLOP a file)", []float64{50, 200, 400, 600, 800, 1000}, func(s *setting, v float64) { s.cost = v }}
	siteCounts = sweep{"sites", []float64{10, 14, 18, 22, 26}, func(s *setting, v float64) { s.sites = int(v) }}
	fileSizes  = sweep{"file size (MB)", []float64{5, 25, 50}, func(s *setting, v float64) { s.megabytes = v }}
)

func (w sweep) at(value float64) setting {
	s := defaults001()
	w.set(&s, value)
	return s
}

// Run001 repeats figures 1 and 5 to 10 and table 4 of paper 001.
func Run001(options Options001) (*Report, error) {
	l := newLab001(options)
	if options.Table4 {
		return l.table4Alone()
	}
	for _, w := range []sweep{capacities, workers, oneServer, quietCosts, costs, siteCounts, fileSizes} {
		for _, value := range w.values {
			l.want(w.at(value), inSkyOrder, policies001...)
		}
	}
	for _, value := range capacities.values {
		l.want(capacities.at(value), disordered, policies001...)
	}
	controls := append([]string{"workqueue"}, policies001...)
	for _, kind := range []bagKind{inSkyOrder, disordered, shuffled} {
		l.want(defaults001(), kind, controls...)
	}
	if err := l.run(); err != nil {
		return nil, fmt.Errorf("paper 001: %w", err)
	}
	r := &Report{Paper: "001", Title: "Paper 001: worker-centric scheduling strategies", Choices: l.choices()}
	r.Figures = append(figure1(l),
		l.figure("fig5a", "Fig. 5a: makespan by capacity, background jobs", inSkyOrder, capacities, "makespan (days)", days),
		l.figure("fig5b", "Fig. 5b: file transfers by capacity, background jobs", inSkyOrder, capacities, "file transfers", transfers),
		l.figure("fig6a", "Fig. 6a: utilisation by capacity, background jobs", inSkyOrder, capacities, "utilisation", utilisation),
		l.figure("fig5a-random", "Fig. 5a with the tasks in random order", disordered, capacities, "makespan (days)", days),
		l.figure("fig5b-random", "Fig. 5b with the tasks in random order", disordered, capacities, "file transfers", transfers),
		l.figure("fig6b", "Fig. 6b: makespan by workers per site", inSkyOrder, workers, "makespan (days)", days),
		l.figure("fig6b-server", "Fig. 6b where all sites share 2 MB/s of the file server", inSkyOrder, oneServer, "makespan (days)", days),
		l.figure("fig7a", "Fig. 7a: file transfers per worker", inSkyOrder, workers, "file transfers per worker", perWorker),
		l.figure("fig7b", "Fig. 7b: utilisation by workers per site", inSkyOrder, workers, "utilisation", utilisation),
		l.figure("fig8a", "Fig. 8a: utilisation by unit computation cost", inSkyOrder, quietCosts, "utilisation", utilisation),
		l.figure("fig8b", "Fig. 8b: share of the makespan with a transfer under way", inSkyOrder, quietCosts, "transfer time / makespan", share),
		l.relative("fig9a", "Fig. 9a: makespan by unit computation cost, background jobs", costs),
		l.figure("fig9b", "Fig. 9b: makespan by file size, background jobs", inSkyOrder, fileSizes, "makespan (days)", days),
		l.figure("fig10a", "Fig. 10a: makespan by sites, background jobs", inSkyOrder, siteCounts, "makespan (days)", days),
		l.figure("fig10b", "Fig. 10b: file transfers by sites, background jobs", inSkyOrder, siteCounts, "file transfers", transfers),
	)
	r.Tables = append(l.tables4(), l.controls(controls))
	r.Findings = l.findings()
	return r, nil
}

// table4Alone plays rest by workers per site.
func (l *lab001) table4Alone() (*Report, error) {
	for _, w := range []sweep{workers, oneServer} {
		for _, value := range w.values {
			l.want(w.at(value), inSkyOrder, "rest")
		}
	}
	if err := l.run(); err != nil {
		return nil, fmt.Errorf("paper 001: %w", err)
	}
	return &Report{
		Paper: "001", Title: "Paper 001: table 4", Choices: l.choices(), Tables: l.tables4(),
		Findings: []Finding{l.waiting(ownWays, workers), l.waiting(oneWay, oneServer), l.flattens(ownWays, workers), l.flattens(oneWay, oneServer)},
	}, nil
}

func (l *lab001) tables4() []*chart.Table {
	return []*chart.Table{l.table4("table4", ownWays, workers), l.table4("table4-server", oneWay, oneServer)}
}

// choices names what the paper does not give.
func (l *lab001) choices() []string {
	return []string{
		"The traces of Coadd are not public: the bag of tasks is synthetic and meets every statistic of table 2 and figure 1. Its tasks stand in the order of the sky.",
		"Topologies: each site has a link of its own to the file server, whose bandwidth follows a lognormal distribution with mean and deviation of table 3; latencies are 10 to 60 ms. The links that paths of a Tiers topology share are not known and not modelled.",
		"Speeds: the machine of a random rank on a list of 500 with speeds of 1645 x (500/rank)^0.79, by 100, in MFLOPS: 16 to 2,230, half of them below 29. The list's speeds in GFLOPS, so read, give the makespans of tens of days that the paper speaks of.",
		"Data servers drop the least recently used files. Sites of figure 10: 10, 14, 18, 22, 26.",
		fmt.Sprintf("Means over %d topologies and %d bags of tasks; error bars are standard deviations of the mean.", len(l.topologies), len(l.bags)),
		"Table 4 is of the first site. It is shown twice: with a way of its own for each site, as table 3 describes them, and where all sites share 2 MB/s of the file server, a number that was chosen so that workers wait as in the paper; no single site would have table 3's bandwidths then.",
	}
}

// figure is a curve for each policy over a sweep.
func (l *lab001) figure(name, title string, kind bagKind, w sweep, what string, of func(*worksites.Result) float64) *chart.Figure {
	f := &chart.Figure{Name: name, Title: title, X: w.axis, Y: what}
	for _, policy := range policies001 {
		s := chart.Series{Name: policy}
		for _, value := range w.values {
			mean, spread := l.mean(w.at(value), kind, policy, of)
			s.Points = append(s.Points, chart.Point{X: value, Y: mean, Spread: spread})
		}
		f.Series = append(f.Series, s)
	}
	return f
}

// relative is a figure of makespans in percent of storage affinity's.
func (l *lab001) relative(name, title string, w sweep) *chart.Figure {
	f := &chart.Figure{Name: name, Title: title, X: w.axis, Y: "makespan (% of storage affinity)"}
	for _, policy := range policies001 {
		s := chart.Series{Name: policy}
		for _, value := range w.values {
			s.Points = append(s.Points, chart.Point{X: value, Y: 100 * (1 + l.gain(w.at(value), policy))})
		}
		f.Series = append(f.Series, s)
	}
	return f
}

// gain is the relative difference of a policy's makespan to storage affinity's.
func (l *lab001) gain(s setting, policy string) float64 {
	own, _ := l.mean(s, inSkyOrder, policy, days)
	base, _ := l.mean(s, inSkyOrder, "storage_affinity", days)
	return own/base - 1
}

// table4 is the metric rest by workers per site, means per worker.
func (l *lab001) table4(name, way string, w sweep) *chart.Table {
	t := &chart.Table{
		Name: name, Title: "Table 4: rest by workers per site, means per worker of one site; " + way,
		Header: []string{"workers", "waiting (h), paper", "here", "transfer (h), paper", "here", "transfers, paper", "here"},
	}
	paper := [][3]string{{"3.59", "30.35", "3998.5"}, {"40.32", "45.45", "2086.5"}, {"98.35", "33.85", "1335.17"}, {"75.93", "18.81", "906.38"}}
	for i, value := range w.values {
		row := []string{fmt.Sprint(value)}
		for j, of := range []func(*worksites.Result) float64{waitingHours, transferHours, siteTransfers} {
			mean, spread := l.mean(w.at(value), inSkyOrder, "rest", of)
			row = append(row, paper[i][j], withSpread(mean, spread))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// controls compares with the FIFO work queue, and on bags whose order or whose
// locality is taken away.
func (l *lab001) controls(policies []string) *chart.Table {
	t := &chart.Table{
		Name: "controls", Title: "Controls at the defaults of table 1: makespan in days / file transfers",
		Header: []string{"policy", "sky order", "random order", "files drawn at random, same degrees"},
	}
	for _, policy := range policies {
		row := []string{policy}
		for _, kind := range []bagKind{inSkyOrder, disordered, shuffled} {
			makespan, _ := l.mean(defaults001(), kind, policy, days)
			moved, _ := l.mean(defaults001(), kind, policy, transfers)
			row = append(row, fmt.Sprintf("%.2f / %.0f", makespan, moved))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
