package experiment

import (
	"fmt"
	"math"
	"strings"

	"github.com/pilotage-grid/pilotage/papers/worksites"
)

// findings holds the claims of the paper against the runs.
func (l *lab001) findings() []Finding {
	return []Finding{
		l.affinityBySmallCapacity(inSkyOrder), l.affinityBySmallCapacity(disordered), l.affinityByLargeCapacity(inSkyOrder), l.affinityByLargeCapacity(disordered),
		l.overlapMovesMore(), l.randomisedIsBest(), l.affinityWithManyWorkers(ownWays, workers), l.affinityWithManyWorkers(oneWay, oneServer),
		l.busyAtDefaults(), l.utilisationSweep(), l.transferSweep(),
		l.bestGain("rest over the cost sweep, best gain over storage affinity", "rest", costs, -0.28),
		l.bestGain("combined.2 over the site sweep, best gain over storage affinity", "combined.2", siteCounts, -0.17),
		l.waiting(ownWays, workers), l.waiting(oneWay, oneServer), l.flattens(ownWays, workers), l.flattens(oneWay, oneServer), l.fallsWithSites(), l.linearInSize(), l.piggyback(),
	}
}

// The ways of sites to the file server.
const (
	ownWays = "each site with a way of its own"
	oneWay  = "all sites sharing 2 MB/s"
)

func (l *lab001) days(s setting, policy string) float64 { return l.daysOf(s, inSkyOrder, policy) }

func (l *lab001) daysOf(s setting, kind bagKind, policy string) float64 {
	mean, _ := l.mean(s, kind, policy, days)
	return mean
}

// fastest is the policy with the shortest makespan, and that makespan.
func (l *lab001) fastest(s setting, policies ...string) (best string, makespan float64) {
	makespan = math.Inf(1)
	for _, policy := range policies {
		if own := l.days(s, policy); own < makespan {
			best, makespan = policy, own
		}
	}
	return best, makespan
}

func (l *lab001) affinityBySmallCapacity(kind bagKind) Finding {
	s := capacities.at(3000)
	worst := 0.0
	for _, policy := range policies001[1:] {
		worst = max(worst, l.daysOf(s, kind, policy))
	}
	own := l.daysOf(s, kind, "storage_affinity")
	return Finding{
		"storage affinity is the slowest at capacity 3,000 (Fig. 5a), " + kind.String(), "slowest",
		fmt.Sprintf("%.2f days, the slowest other %.2f", own, worst), More(own, worst),
	}
}

func (l *lab001) affinityByLargeCapacity(kind bagKind) Finding {
	s, best := capacities.at(30000), math.Inf(1)
	for _, policy := range policies001[1:] {
		best = min(best, l.daysOf(s, kind, policy))
	}
	own := l.daysOf(s, kind, "storage_affinity")
	return Finding{
		"storage affinity is comparable at capacity 30,000 (Fig. 5a), " + kind.String(), "comparable",
		fmt.Sprintf("%.2f days, the best %.2f: %+.1f %%", own, best, 100*(own/best-1)), Alike(own, best),
	}
}

func (l *lab001) overlapMovesMore() Finding {
	same, texts := Yes, []string{}
	for _, value := range capacities.values {
		s := capacities.at(value)
		overlap, _ := l.mean(s, inSkyOrder, "overlap", transfers)
		rest, _ := l.mean(s, inSkyOrder, "rest", transfers)
		combined, _ := l.mean(s, inSkyOrder, "combined", transfers)
		same = same.And(More(overlap, rest)).And(More(overlap, combined))
		texts = append(texts, fmt.Sprintf("%.0f: %.1fx", value, overlap/rest))
	}
	return Finding{"overlap makes more transfers than rest and combined (Fig. 5b)", "usually higher", "of rest's, by capacity: " + strings.Join(texts, ", "), same}
}

func (l *lab001) randomisedIsBest() Finding {
	same, texts := Yes, []string{}
	for _, value := range capacities.values {
		s := capacities.at(value)
		best, makespan := l.fastest(s, policies001...)
		_, randomised := l.fastest(s, "rest.2", "combined.2")
		same = same.And(If(More(randomised, makespan) == No))
		texts = append(texts, fmt.Sprintf("%.0f: %+.2f %% (best %s)", value, 100*(randomised/makespan-1), best))
	}
	return Finding{"a randomised variant is the best (Fig. 5a)", "best", "above the best, by capacity: " + strings.Join(texts, ", "), same}
}

func (l *lab001) affinityWithManyWorkers(way string, w sweep) Finding {
	few, many := l.gain(w.at(2), "combined.2"), l.gain(w.at(8), "combined.2")
	return Finding{
		"storage affinity catches up with many workers (Fig. 6b), " + way, "performs well with larger numbers",
		fmt.Sprintf("combined.2 against it: %+.1f %% with 2 workers a site, %+.1f %% with 8", 100*few, 100*many), More(1+many, 1+few),
	}
}

func (l *lab001) busyAtDefaults() Finding {
	least, most := 1.0, 0.0
	for _, policy := range policies001[1:] {
		mean, _ := l.mean(defaults001(), inSkyOrder, policy, utilisation)
		least, most = min(least, mean), max(most, mean)
	}
	return Finding{"utilisation at the defaults (worker-centric)", "above 90 %", fmt.Sprintf("%.1f to %.1f %%", 100*least, 100*most), If(least > 0.9)}
}

// extremes of something over a sweep and all worker-centric policies.
func (l *lab001) extremes(w sweep, of func(*worksites.Result) float64) (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, value := range w.values {
		for _, policy := range policies001 {
			mean, _ := l.mean(w.at(value), inSkyOrder, policy, of)
			least, most = min(least, mean), max(most, mean)
		}
	}
	return least, most
}

func (l *lab001) utilisationSweep() Finding {
	least, most := l.extremes(quietCosts, utilisation)
	return Finding{"utilisation over the cost sweep (Fig. 8a)", "0.2 to 0.9", fmt.Sprintf("%.2f to %.2f", least, most), Number(least, 0.2).And(Number(most, 0.9))}
}

func (l *lab001) transferSweep() Finding {
	least, most := l.extremes(quietCosts, share)
	return Finding{"time with a transfer under way over makespan, cost sweep (Fig. 8b)", "0.5 to almost 1", fmt.Sprintf("%.2f to %.2f", least, most), Number(least, 0.5).And(Alike(most, 1))}
}

func (l *lab001) bestGain(claim, policy string, w sweep, paper float64) Finding {
	best, where := math.Inf(1), 0.0
	for _, value := range w.values {
		if gain := l.gain(w.at(value), policy); gain < best {
			best, where = gain, value
		}
	}
	return Finding{claim, fmt.Sprintf("%+.0f %%", 100*paper), fmt.Sprintf("%+.1f %% (at %.0f)", 100*best, where), Ratio(1+best, 1+paper)}
}

// waiting holds the hours of table 4, one by one.
func (l *lab001) waiting(way string, w sweep) Finding {
	same, texts := Yes, []string{}
	for i, paper := range []float64{3.59, 40.32, 98.35, 75.93} {
		mean, spread := l.mean(w.at(w.values[i]), inSkyOrder, "rest", waitingHours)
		same, texts = same.And(Number(mean, paper)), append(texts, withSpread(mean, spread))
	}
	if w.at(2).server > 0 {
		same = same.ByChoice()
	}
	return Finding{"hours that a worker of a site waits, 2, 4, 6 and 8 workers (Table 4), " + way, "3.59, 40.32, 98.35, 75.93", strings.Join(texts, ", "), same}
}

// flattens compares what the first two workers more bring with what the last two do.
func (l *lab001) flattens(way string, w sweep) Finding {
	var makespans []float64
	var texts []string
	for _, value := range w.values {
		mean, spread := l.mean(w.at(value), inSkyOrder, "rest", days)
		makespans, texts = append(makespans, mean), append(texts, withSpread(mean, spread))
	}
	return Finding{
		"makespan flattens with more workers a site (Fig. 6b, 4.5), " + way, "flattens", "rest: " + strings.Join(texts, ", ") + " days",
		Much(makespans[0]-makespans[1], makespans[2]-makespans[3]),
	}
}

func (l *lab001) fallsWithSites() Finding {
	same := Yes
	for _, policy := range policies001 {
		for i := range siteCounts.values[1:] {
			same = same.And(More(l.days(siteCounts.at(siteCounts.values[i]), policy), l.days(siteCounts.at(siteCounts.values[i+1]), policy)))
		}
	}
	return Finding{
		"makespan falls with the number of sites, for all policies (Fig. 10a)", "generally reduces",
		fmt.Sprintf("combined.2: %.2f days at 10 sites, %.2f at 26", l.days(siteCounts.at(10), "combined.2"), l.days(siteCounts.at(26), "combined.2")), same,
	}
}

func (l *lab001) linearInSize() Finding {
	small, middle, large := l.days(fileSizes.at(5), "rest"), l.days(fileSizes.at(25), "rest"), l.days(fileSizes.at(50), "rest")
	first, second := (middle-small)/20, (large-middle)/25
	return Finding{
		"makespan grows almost linearly with the file size (Fig. 9b)", "almost linear",
		fmt.Sprintf("rest: %.2f, %.2f, %.2f days; slopes %.4f and %.4f days a MB", small, middle, large, first, second),
		Alike(first, second),
	}
}

func (l *lab001) piggyback() Finding {
	alone, several := 0, 0
	for j, r := range l.results {
		if j.workers == 1 {
			alone = max(alone, r.Piggyback)
		} else {
			several = max(several, r.Piggyback)
		}
	}
	return Finding{
		"names of evicted files with one request (section 3.4)", "at most 101 x 4 bytes (181 x 4 = 724 for the whole workload)",
		fmt.Sprintf("at most %d x 4 = %d bytes with one worker a site; with several, whose transfers end between two requests, %d x 4 = %d", alone, 4*alone, several, 4*several),
		If(alone <= l.shape.Most),
	}
}
