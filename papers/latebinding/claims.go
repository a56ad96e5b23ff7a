package latebinding

import (
	"fmt"
	"math"

	"github.com/pilotage-grid/pilotage/papers/experiment"
)

// findings sets the sentences of 004, section IV, beside the runs.
func (l *lab) findings() []experiment.Finding {
	var found []experiment.Finding
	for _, protocol := range l.Protocols {
		if protocol == AsInPaper {
			found = append(found, l.requestClaims()...)
			found = append(found, l.delayClaims()...)
			found = append(found, l.hitClaims()...)
		}
	}
	return append(found, l.fillClaim()...)
}

func (l *lab) of(architecture, size int, of func(*record) float64) float64 {
	mean, _ := l.mean(AsInPaper, architectures[architecture].name, size, of)
	return mean
}

func (l *lab) largest() int { return len(sizes) - 1 }

func (l *lab) requestClaims() []experiment.Finding {
	perTask := func(r *record) float64 { return r.paperPerTask() }
	var found []experiment.Finding
	for i, papers := range []float64{12, 9, 5} {
		ours := l.of(i, l.largest(), perTask)
		same := experiment.Number(ours, papers)
		if i != distributed { // pilots send heartbeats, whose rate was fitted
			same = same.ByChoice()
		}
		found = append(found, experiment.Finding{
			Claim: "requests per task, " + architectures[i].name + " (Fig. 2)", Paper: fmt.Sprintf("around %.0f", papers),
			Ours: fmt.Sprintf("%.2f at the largest testbed, most of them empty calls; the queue served %.2f, of which %.2f were the product's own",
				ours, l.of(i, l.largest(), (*record).servedPerTask), l.of(i, l.largest(), (*record).ownPerTask)),
			Same: same,
		})
	}
	linear, low, high := experiment.Yes, math.Inf(1), 0.0
	for i := range architectures {
		small, large := l.of(i, 0, perTask), l.of(i, l.largest(), perTask)
		ratio := large / small
		low, high = min(low, ratio), max(high, ratio)
		linear = linear.And(experiment.Alike(ratio, 1))
	}
	return append(found, experiment.Finding{
		Claim: "requests grow almost linearly with the tasks (Fig. 2)", Paper: "almost linearly",
		Ours: fmt.Sprintf("per task, the largest testbed has %.2f to %.2f of the smallest", low, high), Same: linear,
	})
}

func (l *lab) delayClaims() []experiment.Finding {
	delay := func(r *record) float64 { return r.Result.SlotChange.Mean }
	makespan := func(r *record) float64 { return r.Result.Makespan }
	papers := func(seconds float64) float64 { return seconds * l.Speed }
	least, most := math.Inf(1), 0.0
	for size := range sizes {
		least, most = min(least, l.of(distributed, size, delay)), max(most, l.of(distributed, size, delay))
	}
	found := []experiment.Finding{{
		Claim: "distributed: the delay is constant and about the period (Fig. 3)", Paper: "about 20 s",
		Ours: fmt.Sprintf("%.1f to %.1f s of the paper's time", papers(least), papers(most)), Same: experiment.Number(papers(least), 20).And(experiment.Number(papers(most), 20)),
	}}
	for i, claim := range []string{"small", "medium"} {
		own, other := l.of(centralized, i, delay), l.of(preDHT, i, delay)
		text := fmt.Sprintf("pre-DHT %.1f, centralized %.1f s of the paper's time", papers(other), papers(own))
		found = append(found, experiment.Finding{
			Claim: "central matching: the delay at the " + claim + " testbed is below that of rounds (Fig. 3)", Paper: "below",
			Ours: text, Same: experiment.More(l.of(distributed, i, delay), max(own, other)),
		}, experiment.Finding{
			Claim: "... and that delay (Fig. 3)", Paper: "about 5 s",
			Ours: text, Same: experiment.Number(papers(own), 5).And(experiment.Number(papers(other), 5)),
		})
	}
	last := l.largest()
	central := min(l.of(preDHT, last, delay), l.of(centralized, last, delay))
	found = append(found, experiment.Finding{
		Claim: "central matching: the delay at the largest testbed is above that of rounds (Fig. 3)", Paper: "much higher, dispersed",
		Ours: fmt.Sprintf("pre-DHT %.1f, centralized %.1f, distributed %.1f s of the paper's time",
			papers(l.of(preDHT, last, delay)), papers(l.of(centralized, last, delay)), papers(l.of(distributed, last, delay))),
		Same: experiment.Much(central, l.of(distributed, last, delay)),
	})
	own, other := l.of(distributed, last, makespan), min(l.of(preDHT, last, makespan), l.of(centralized, last, makespan))
	return append(found, experiment.Finding{
		Claim: "distributed has the shortest turnaround at the largest testbed (Fig. 4)", Paper: "shortest",
		Ours: fmt.Sprintf("%.0f s, the better of the others %.0f s", own, other), Same: experiment.More(other, own),
	})
}

func (l *lab) hitClaims() []experiment.Finding {
	total := func(r *record) float64 { return r.Result.Cache.TotalHits }
	local := func(r *record) float64 { return r.Result.Cache.LocalHits }
	last := l.largest()
	least, lower, above := 1.0, experiment.Yes, experiment.Yes
	low, high := 1.0, 0.0
	for size := range sizes {
		least = min(least, l.of(centralized, size, total), l.of(distributed, size, total))
		lower = lower.And(experiment.Much(1-l.of(preDHT, size, total), 1-min(l.of(centralized, size, total), l.of(distributed, size, total))))
		mean := l.of(distributed, size, local)
		low, high = min(low, mean), max(high, mean)
		above = above.And(experiment.Much(1-max(l.of(preDHT, size, local), l.of(centralized, size, local)), 1-mean))
	}
	return []experiment.Finding{
		{
			Claim: "total hit ratio with the DHT (Fig. 7)", Paper: "almost perfect",
			Ours: fmt.Sprintf("at least %.4f", least), Same: experiment.If(least > 0.98),
		},
		{
			Claim: "total hit ratio of pre-DHT is considerably lower (Fig. 7)", Paper: "considerably lower",
			Ours: fmt.Sprintf("%.3f at the smallest, %.3f at the largest testbed", l.of(preDHT, 0, total), l.of(preDHT, last, total)), Same: lower,
		},
		{
			Claim: "... and rises with the testbed (Fig. 7)", Paper: "increases",
			Ours: fmt.Sprintf("%+.3f", l.of(preDHT, last, total)-l.of(preDHT, 0, total)), Same: experiment.More(l.of(preDHT, last, total), l.of(preDHT, 0, total)),
		},
		{
			Claim: "local hit ratio of centralized is similar to pre-DHT's (Fig. 8)", Paper: "similar",
			Ours: fmt.Sprintf("%.3f and %.3f", l.of(centralized, last, local), l.of(preDHT, last, local)), Same: experiment.Alike(l.of(centralized, last, local), l.of(preDHT, last, local)),
		},
		{
			Claim: "local hit ratio of distributed is much better at every testbed (Fig. 8)", Paper: "much better",
			Ours: fmt.Sprintf("%.3f to %.3f", low, high), Same: above,
		},
		{
			Claim: "... and does not vary with the testbed (Fig. 8)", Paper: "not significantly",
			Ours: fmt.Sprintf("by %.3f", high-low), Same: experiment.Alike(low, high),
		},
	}
}

// fillClaim is about the cold start of figure 5.
func (l *lab) fillClaim() []experiment.Finding {
	isolated, rounds := l.traces[architectures[preDHT].name], l.traces[architectures[distributed].name]
	if isolated == nil || rounds == nil {
		return nil
	}
	own, other := isolated.Result.FirstFill, rounds.Result.FirstFill
	return []experiment.Finding{{
		Claim: "pre-DHT: time until all slots run their first job (Fig. 5)", Paper: "almost 10 minutes",
		Ours: fmt.Sprintf("%.1f s, distributed %.1f s (%d pilots, not in the paper's time: nothing of it is a task's)", own, other, isolated.Result.Pilots),
		Same: experiment.Number(own, 600),
	}}
}
