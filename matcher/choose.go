package matcher

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// Choose is 001's ChooseTask(n) (section 3.3): pilots are served one by one,
// in the order of InTurn, and each gets one of its n best tasks, drawn with a
// probability proportional to the weight of its rank. With n = 1 it is
// InTurn. Only tasks of the highest level at hand take part: a draw never
// sets priority aside. The draws come from random alone, so that the same
// seed and matrix give the same result.
func Choose(n int, random *rand.Rand, first ...task.PilotID) Solver {
	return func(m *Matrix) []Assignment {
		return m.oneByOne(first, func(run *greedyRun) {
			for run.open > 0 {
				best := run.best(n)
				if len(best) == 0 {
					return
				}
				weights := make([]float64, len(best))
				for i, c := range best {
					weights[i] = c.rank
				}
				run.assign(best[Draw(weights, random)])
				if run.open > 0 {
					b := run.bidders[0]
					run.start(run.prefill, []bidder{b})
				}
			}
		})
	}
}

// best takes up to n different tasks of the highest level off the queue of a
// single bidder, best first.
func (g *greedyRun) best(n int) (best []candidate) {
	for len(best) < n && len(g.queue) > 0 {
		c := g.queue[0]
		if c.group >= 0 {
			g.groups[c.group].task++ // it is looked at, though not taken
		}
		g.drop()
		switch known := func(other candidate) bool { return other.cell == c.cell }; {
		case slices.ContainsFunc(best, known) || !g.bidders[0].offers(c.cell, g.prefill):
		case len(best) > 0 && best[0].level != c.level:
			return best
		default:
			best = append(best, c)
		}
	}
	return best
}

// Draw picks an index with a probability proportional to its rank (001,
// section 3.3). Where the paper is silent: ranks without bound are drawn
// among themselves, all alike; ranks that are all zero are drawn alike; ranks
// that are costs, none above zero and some below, weigh one by their cost, as
// rest does with files; among ranks of both signs each weighs what it is above
// the smallest. ranks must not be empty.
func Draw(ranks []float64, random *rand.Rand) int {
	weights := drawWeights(ranks)
	sum := 0.0
	for _, weight := range weights {
		sum += weight
	}
	if sum == 0 {
		return random.IntN(len(ranks))
	}
	at := random.Float64() * sum
	last := 0
	for i, weight := range weights {
		if weight == 0 {
			continue
		}
		if last = i; at < weight {
			break
		}
		at -= weight
	}
	return last
}

func drawWeights(ranks []float64) []float64 {
	weights := slices.Clone(ranks)
	low, high := slices.Min(ranks), slices.Max(ranks)
	switch {
	case low < 0 && high <= 0:
		for i, rank := range ranks {
			weights[i] = inverse(-rank)
		}
	case low < 0:
		for i, rank := range ranks {
			weights[i] = rank/2 - low/2 // halves, so that it stays finite
		}
	}
	high = slices.Max(weights)
	for i, weight := range weights {
		switch {
		case high < NothingMissing:
			weights[i] = weight / max(high, math.SmallestNonzeroFloat64)
		case weight == high:
			weights[i] = 1
		default:
			weights[i] = 0
		}
	}
	return weights
}
