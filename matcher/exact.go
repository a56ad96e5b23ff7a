package matcher

import "slices"

// Exact chooses the pairs with the largest sum of ranks. First of all it
// places as many tasks of the highest level (priority, then passed over) as
// can be placed, then as many of the next, and so on; among all such choices
// it takes one with the largest sum. Free slots come before prefill.
//
// With one task per slot this is the linear assignment problem, solved here
// by shortest augmenting paths in the manner of Jonker and Volgenant, on the
// sparse matrix: see assignmentNetwork. Several tasks that share the
// resources of one pilot are a packing problem, which is NP-hard; there a
// pilot counts as so many places as it can hold of its smallest class, and
// what does not fit together is placed greedily afterwards. The result is
// always feasible, and the best wherever the places of a pilot do not compete
// for its resources.
//
// It has no task wait for a pilot where that would start sooner.
//
// It is deterministic: the same matrix gives the same pairs.
func Exact(m *Matrix) []Assignment {
	m.runs++
	run := exactRun{greedyRun{matrix: m}}
	run.pass(false)
	run.pass(true)
	return run.result
}

type exactRun struct{ greedyRun }

// pass fills either the free slots or the prefill places.
func (e *exactRun) pass(prefill bool) {
	bidders := e.matrix.bidders(prefill)
	network := newAssignmentNetwork(&e.greedyRun, prefill, bidders)
	for place := range network.places {
		for filled := 0; filled < network.places[place].supply && network.fill(place); {
			filled++
		}
	}
	e.prefill, e.bidders, e.open = prefill, bidders, len(bidders)
	dropped := false
	for _, pair := range network.pairs() {
		if e.available(&pair) {
			e.assign(pair)
		} else {
			dropped = true
		}
	}
	if dropped {
		e.greedyRun.pass(prefill, slices.DeleteFunc(bidders, func(b bidder) bool { return !b.open(prefill) }))
	}
}

// supply is how many tasks the pilot can take at most: its places, as far as
// its resources hold that many tasks of one of the classes.
func (b *bidder) supply(m *Matrix, prefill bool) int {
	if prefill {
		return b.places.Prefill
	}
	most := 0
	for _, answer := range b.row.answers {
		block := m.classes[answer.Class]
		if !answer.Feasible || len(block.ready) == 0 || most == b.places.FreeSlots {
			continue
		}
		places, count := b.places, 0
		for places.offers(block.need, false) {
			places.take(block.need, false)
			count++
		}
		most = max(most, count)
	}
	return most
}
