package dispatch

import (
	"math/rand/v2"
	"slices"

	"github.com/pilotage-grid/pilotage/matcher"
)

// WorkerCentric is the global scheduler of 001 (Fig. 3): a worker asks, every
// waiting task is valued for the worker's site, and one of the n best is
// given. It knows what a site holds from what it has assigned there and from
// the evictions that requests name, and asks nobody.
//
// A request costs as much as there are tasks waiting, plus the readers of the
// files that came and went; it does not depend on how many files a task reads.
type WorkerCentric struct {
	policy  Policy
	random  *rand.Rand
	library *library
	waiting []int32 // in the order of arrival
	sites   map[string]*holding
}

// NewWorkerCentric returns a scheduler without tasks. random is used only by
// policies with n > 1.
func NewWorkerCentric(policy Policy, random *rand.Rand) *WorkerCentric {
	return &WorkerCentric{policy: policy, random: random, library: newLibrary(policy.size), sites: make(map[string]*holding)}
}

// Add puts a task at the end of the queue.
func (w *WorkerCentric) Add(t Task) { w.waiting = append(w.waiting, w.library.add(t)) }

// Waiting is the number of tasks in the queue.
func (w *WorkerCentric) Waiting() int { return len(w.waiting) }

// Next chooses a task for the worker. Equal weights go by age where n is 1,
// and take part in the draw by age where it is larger.
func (w *WorkerCentric) Next(r Request) (no uint64, found bool) {
	site := w.sites[r.Site]
	if site == nil {
		site = &holding{library: w.library}
		w.sites[r.Site] = site
	}
	site.grow()
	site.evict(r.Evicted)
	best := w.best(&r, site)
	if len(best) == 0 {
		return 0, false
	}
	chosen := best[0]
	if w.policy.N > 1 {
		weights := make([]float64, len(best))
		for i, candidate := range best {
			weights[i] = candidate.weight
		}
		chosen = best[matcher.Draw(weights, w.random)]
	}
	site.assign(chosen.number)
	w.waiting = slices.Delete(w.waiting, chosen.at, chosen.at+1)
	return w.library.tasks[chosen.number].no, true
}

type valued struct {
	weight float64
	at     int // in waiting
	number int32
}

// best are the n tasks with the largest weights, largest first.
func (w *WorkerCentric) best(r *Request, site *holding) []valued {
	sums := w.sums(site)
	best := make([]valued, 0, min(w.policy.N, len(w.waiting))+1)
	for at, number := range w.waiting {
		weight := w.policy.weight(site.overlap[number], site.missing(number), site.ref[number], sums)
		if len(best) == w.policy.N && weight <= best[len(best)-1].weight || !r.accepts(w.library.tasks[number].no) {
			continue
		}
		place := len(best)
		for place > 0 && weight > best[place-1].weight {
			place--
		}
		best = slices.Insert(best, place, valued{weight, at, number})
		best = best[:min(len(best), w.policy.N)]
	}
	return best
}

func (w *WorkerCentric) sums(site *holding) (sums totals) {
	if !w.policy.sums() {
		return sums
	}
	for _, number := range w.waiting {
		sums.ref += site.ref[number]
		if missing := site.missing(number); missing > 0 {
			sums.rest += 1 / missing
		}
	}
	return sums
}
