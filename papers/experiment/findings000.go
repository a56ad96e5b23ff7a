package experiment

import (
	"fmt"

	"github.com/pilotage-grid/pilotage/papers/cluster"
)

// findings holds the claims of 000 against the runs.
func (l *lab000) findings() ([]Finding, error) {
	_, same := handTable()
	all := []Finding{{"fileLocality and Score (equations 1 and 2)", "as worked out by hand", fmt.Sprintf("%d cases", len(handCases)), If(same)}}
	orders, err := ordersOfTasks()
	if err != nil {
		return nil, err
	}
	degrades, err := l.degrades()
	if err != nil {
		return nil, err
	}
	all = append(all, orders...)
	all = append(all, l.throughputGain(), l.throughputWithEight(), l.readgfFIFO(), l.readgfGain())
	all = append(all, l.mixGain()...)
	all = append(all, l.betaZero()...)
	return append(all, l.betaOne(), l.delayZero(), l.delayFour(), degrades), nil
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
		all = append(all, Finding{fmt.Sprintf("remote tasks of %s %s (Fig. 4)", c.order, rule), c.paper, fmt.Sprintf("%d of 8", remote), If(remote == c.want)})
	}
	return all, nil
}

func (l *lab000) throughputGain() Finding {
	fifo, dad := l.fifo.average(megabytes), l.dad.average(megabytes)
	return Finding{
		"thput-gfpio: mean throughput of DAD over FIFO (Fig. 5)", "3.59 (2,803.61 / 780.11 MB/s)",
		fmt.Sprintf("%.2f (%.0f / %.0f MB/s), %.1f local tasks under FIFO", dad/fifo, dad, fifo, l.fifo.average(localTasks)), Ratio(dad/fifo, 3.59),
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
	f := Finding{"... where 8 of FIFO's tasks are local by accident, as in the paper", "3.59", "no such order", No}
	if mean, spread := MeanOf(gains); len(gains) > 0 {
		f.Ours, f.Same = fmt.Sprintf("%s (%d of %d orders)", withSpread(mean, spread), len(gains), len(l.more)), Ratio(mean, 3.59)
	}
	return f
}

func (l *lab000) readgfFIFO() Finding {
	mean, spread := l.fifo.mean(seconds)
	return Finding{"readgf: makespan of FIFO (Fig. 6a)", "56.38 s", withSpread(mean, spread) + " s", Number(mean, 56.38)}
}

func (l *lab000) readgfGain() Finding {
	fifo, dad := l.fifo.average(seconds), l.dad.average(seconds)
	return Finding{
		"readgf: makespan of DAD over FIFO (Fig. 6)", "0.10 (5.63 / 56.38 s)",
		fmt.Sprintf("%.3f (%.2f / %.2f s), all tasks local in %s", dad/fifo, dad, fifo, l.allLocal()), Ratio(dad/fifo, 0.10).ByChoice(),
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

// inOrder is a claim about the mix, which depends on the order of submission.
func (l *lab000) inOrder(claim, paper string, s scheduling, same func(ratio float64) Verdict) (all []Finding) {
	for order, runs := range l.orders {
		mean, spread := runs[s.name].mean(seconds)
		ratio := mean / blastFIFO
		all = append(all, Finding{"BLAST mix, " + submission(order).String() + ": " + claim, paper, fmt.Sprintf("%.2f (%s s)", ratio, withSpread(mean, spread)), same(ratio)})
	}
	return all
}

func (l *lab000) mixGain() []Finding {
	return l.inOrder("beta 0.8, Delay 2 over FIFO (Fig. 7, 8)", "0.67 (178.0 / 266.9 s)", best, func(ratio float64) Verdict { return Ratio(ratio, 0.67) })
}

func (l *lab000) betaOne() Finding {
	one, own := l.ratio(dad(1, 2).name), l.ratio(best.name)
	return Finding{"BLAST mix: beta 1 is close to the best case (Fig. 9)", "similar", fmt.Sprintf("%.3f against %.3f of FIFO", one, own), Alike(one, own)}
}

func (l *lab000) betaZero() []Finding {
	return l.inOrder("beta 0 is similar to FIFO (Fig. 9)", "similar", dad(0, 2), func(ratio float64) Verdict { return Alike(ratio, 1) })
}

func (l *lab000) delayZero() Finding {
	none, own := dad(0.8, 0).name, best.name
	a, b := l.mix[none].average(localTasks), l.mix[own].average(localTasks)
	return Finding{
		"BLAST mix: Delay 0 has more remote tasks and takes longer (Fig. 9)", "many more, longer",
		fmt.Sprintf("%.1f local tasks against %.1f, %.2f against %.2f of FIFO", a, b, l.ratio(none), l.ratio(own)), Much(60-a, 60-b).And(More(l.ratio(none), l.ratio(own))),
	}
}

func (l *lab000) delayFour() Finding {
	four, own := dad(0.8, 4).name, best.name
	a, b := l.mix[four].average(localTasks), l.mix[own].average(localTasks)
	return Finding{
		"BLAST mix: Delay 4 has more local tasks but takes longer (Fig. 9)", "more local, longer",
		fmt.Sprintf("%.1f local tasks against %.1f, %.2f against %.2f of FIFO", a, b, l.ratio(four), l.ratio(own)), More(a, b).And(More(l.ratio(four), l.ratio(own))),
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
		fmt.Sprintf("the same starts and ends in %d of %d runs", same, len(fifo)), If(same == len(fifo)),
	}, nil
}
