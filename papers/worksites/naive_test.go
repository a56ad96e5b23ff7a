package worksites_test

import (
	"math/rand/v2"
	"slices"

	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// naive follows the formulas of 001 word by word, without any index: every
// request looks at every task and file.
type naive struct {
	workload *trace.Workload
	siteOf   []int
	metric   string
	choose   int
	random   *rand.Rand
	open     []bool
	present  []map[int32]int // by site: file to references
}

func newNaive(w *trace.Workload, siteOf []int, metric string, choose int) *naive {
	n := &naive{workload: w, siteOf: siteOf, metric: metric, choose: choose, random: rand.New(rand.NewPCG(1, 1)), open: make([]bool, len(w.Tasks))}
	for i := range n.open {
		n.open[i] = true
	}
	for range slices.Max(siteOf) + 1 {
		n.present = append(n.present, make(map[int32]int))
	}
	return n
}

func (n *naive) Request(worker int, evicted []int32) (int32, bool) {
	table := n.present[n.siteOf[worker]]
	for _, f := range evicted {
		delete(table, f)
	}
	type weighed struct {
		task         int32
		overlap, ref float64
		missing      float64
		weight       float64
	}
	var list []weighed
	for i, open := range n.open {
		if !open {
			continue
		}
		one := weighed{task: int32(i)}
		for _, f := range n.workload.Tasks[i].Inputs {
			if r, found := table[f]; found {
				one.overlap++
				one.ref += float64(r)
			} else {
				one.missing++
			}
		}
		list = append(list, one)
	}
	if len(list) == 0 {
		return 0, false
	}
	totalRef, totalRest := 0.0, 0.0
	for _, one := range list {
		totalRef += one.ref
		if one.missing > 0 {
			totalRest += 1 / one.missing
		}
	}
	for i := range list {
		one := &list[i]
		switch {
		case n.metric == "fifo":
		case n.metric == "overlap":
			one.weight = one.overlap
		case one.missing == 0:
			one.weight = 1e300
		case n.metric == "rest":
			one.weight = 1 / one.missing
		default:
			if totalRef > 0 {
				one.weight = one.ref / totalRef
			}
			one.weight += 1 / one.missing / totalRest
		}
	}
	slices.SortStableFunc(list, func(a, b weighed) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return 0
	})
	best := list[:min(n.choose, len(list))]
	if best[0].weight == 1e300 { // only those of infinite weight, alike
		for len(best) > 1 && best[len(best)-1].weight < 1e300 {
			best = best[:len(best)-1]
		}
	}
	sum := 0.0
	for _, one := range best {
		sum += one.weight
	}
	at := len(best) - 1
	if len(best) > 1 {
		draw := n.random.Float64()
		for i, one := range best {
			part := 1 / float64(len(best))
			if sum > 0 {
				part = one.weight / sum
			}
			if draw -= part; draw < 0 {
				at = i
				break
			}
		}
	} else {
		at = 0
	}
	chosen := best[at].task
	n.open[chosen] = false
	for _, f := range n.workload.Tasks[chosen].Inputs {
		table[f]++
	}
	return chosen, true
}

func (n *naive) Done(int, int32) []int { return nil }
