package experiment

import (
	"fmt"
	"math"

	"github.com/pilotage-grid/pilotage/papers/cluster"
)

// findings holds the claims of 000 against the runs.
func (l *lab000) findings() ([]Finding, error) {
	_, same := handTable()
	all := []Finding{{"fileLocality and Score (equations 1 and 2)", "as worked out by hand", fmt.Sprintf("%d cases", len(handCases)), same}}
	orders, err := ordersOfTasks()
	if err != nil {
		return nil, err
	}
	degrades, err := l.degrades()
	if err != nil {
		return nil, err
	}
	all = append(all, orders...)
	return append(all,
		l.throughputGain(), l.throughputWithEight(), l.readgfFIFO(), l.readgfGain(),
		l.mixGain(), l.betaOne(), l.betaZero(), l.delayZero(), l.delayFour(), degrades,
	), nil
}

// ordersOfTasks is figure 4.
func ordersOfTasks() (all []Finding, err error) {
	for _, c := range []struct {
		order string
		delay int
		paper string
		want  int
	}{
		{"AAAABBBB", 0, "half of them", 4}, {"AAAABBBB", 2, "none", 0}, {"AABBAABB", 0, "none", 0}, {"AABBAABB", 2, "none", 0},
	} {
		remote, err := taskOrder(c.order, c.delay)
		if err != nil {
			return nil, err
		}
		rule := "without the delay rule"
		if c.delay > 0 {
			rule = fmt.Sprintf("with Delay %d", c.delay)
		}
		all = append(all, Finding{fmt.Sprintf("remote tasks of %s %s (Fig. 4)", c.order, rule), c.paper, fmt.Sprintf("%d of 8", remote), remote == c.want})
	}
	return all, nil
}

func (l *lab000) throughputGain() Finding {
	fifo, dad := l.fifo.average(megabytes), l.dad.average(megabytes)
	return Finding{
		"thput-gfpio: mean throughput of DAD over FIFO (Fig. 5)", "3.59 (2,803.61 / 780.11 MB/s)",
		fmt.Sprintf("%.2f (%.0f / %.0f MB/s), %.1f local tasks under FIFO", dad/fifo, dad, fifo, l.fifo.average(localTasks)), dad >= 3*fifo,
	}
}

// throughputWithEight looks only at orders in which FIFO has eight local tasks
// by accident, as in the paper.
func (l *lab000) throughputWithEight() Finding {
	gains := []float64{}
	for _, r := range l.more {
		if r.Local() == 8 {
			gains = append(gains, l.dad.average(megabytes)/megabytes(r))
		}
	}
	f := Finding{"... where 8 of FIFO's tasks are local by accident, as in the paper", "3.59", "no such order", false}
	if mean, spread := MeanOf(gains); len(gains) > 0 {
		f.Ours, f.Same = fmt.Sprintf("%s (%d of %d orders)", withSpread(mean, spread), len(gains), len(l.more)), math.Abs(mean/3.59-1) < 0.15
	}
	return f
}

func (l *lab000) readgfFIFO() Finding {
	mean, spread := l.fifo.mean(seconds)
	return Finding{"readgf: makespan of FIFO (Fig. 6a)", "56.38 s", withSpread(mean, spread) + " s", math.Abs(mean/56.38-1) < 0.1}
}

func (l *lab000) readgfGain() Finding {
	fifo, dad := l.fifo.average(seconds), l.dad.average(seconds)
	return Finding{
		"readgf: makespan of DAD over FIFO (Fig. 6)", "0.10 (5.63 / 56.38 s)",
		fmt.Sprintf("%.3f (%.2f / %.2f s), all tasks local in %s", dad/fifo, dad, fifo, l.allLocal()), dad <= 0.15*fifo,
	}
}

func (l *lab000) allLocal() string {
	count := 0
	for _, r := range l.dad {
		if r.Local() == len(r.Tasks) {
			count++
		}
	}
	return fmt.Sprintf("%d of %d orders", count, len(l.dad))
}

func (l *lab000) mixGain() Finding {
	ratio := l.ratio(best.name)
	return Finding{
		"BLAST mix: beta 0.8, Delay 2 over FIFO (Fig. 7, 8)", "0.67 (178.0 / 266.9 s)",
		fmt.Sprintf("%.2f (%s s)", ratio, withSpread(l.mix[best.name].mean(seconds))), math.Abs(ratio-0.67) < 0.05,
	}
}

func (l *lab000) betaOne() Finding {
	one, own := l.ratio(dad(1, 2).name), l.ratio(best.name)
	return Finding{"BLAST mix: beta 1 is close to the best case (Fig. 9)", "similar", fmt.Sprintf("%.3f against %.3f of FIFO", one, own), math.Abs(one-own) < 0.03}
}

func (l *lab000) betaZero() Finding {
	zero := l.ratio(dad(0, 2).name)
	return Finding{"BLAST mix: beta 0 is similar to FIFO (Fig. 9)", "similar", fmt.Sprintf("%.2f of FIFO", zero), math.Abs(zero-1) < 0.1}
}

func (l *lab000) delayZero() Finding {
	none, own := dad(0.8, 0).name, best.name
	a, b := l.mix[none].average(localTasks), l.mix[own].average(localTasks)
	return Finding{
		"BLAST mix: Delay 0 has more remote tasks and takes longer (Fig. 9)", "many more, longer",
		fmt.Sprintf("%.1f local tasks against %.1f, %.2f against %.2f of FIFO", a, b, l.ratio(none), l.ratio(own)), a < b && l.ratio(none) > l.ratio(own),
	}
}

func (l *lab000) delayFour() Finding {
	four, own := dad(0.8, 4).name, best.name
	a, b := l.mix[four].average(localTasks), l.mix[own].average(localTasks)
	return Finding{
		"BLAST mix: Delay 4 has more local tasks but takes longer (Fig. 9)", "more local, longer",
		fmt.Sprintf("%.1f local tasks against %.1f, %.2f against %.2f of FIFO", a, b, l.ratio(four), l.ratio(own)), a > b && l.ratio(four) > l.ratio(own),
	}
}

// degrades compares event by event: with beta 0, one queue and Delay 0 the
// schedule is FIFO's.
func (l *lab000) degrades() (Finding, error) {
	oneQueue := func(seed uint64) cluster.Config {
		c := l.blast.config(seed)
		for i := range c.Tasks {
			c.Tasks[i].Queue = ""
		}
		return c
	}
	fifo, err := l.play(torque, oneQueue)
	if err != nil {
		return Finding{}, err
	}
	zero, err := l.play(dad(0, 0), oneQueue)
	if err != nil {
		return Finding{}, err
	}
	same := 0
	for i := range fifo {
		if fifo[i].Hash == zero[i].Hash {
			same++
		}
	}
	return Finding{
		"beta 0, one queue and Delay 0 give the load-ordered FIFO schedule", "the performance is identical",
		fmt.Sprintf("the same starts and ends in %d of %d runs", same, len(fifo)), same == len(fifo),
	}, nil
}
