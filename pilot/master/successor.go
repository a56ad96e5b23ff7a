package master

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/matcher"
)

// A successor is a task that misses nothing but what another one is making. It has
// its input in the cache of that one's pilot the moment it can run, so that it
// starts there as soon as anywhere and stages that in nowhere sooner: where tasks
// are given early at all, the pilot gets it early, and starts it without anybody
// being asked. The matrix decides that like what else is given early.

// successorLooks bounds the readers of an output among which successors are
// sought, oldest first.
const successorLooks = 64

// successors lists one task for each that runs at a member and has none, which may
// follow it there. A member whose slots have something else to go on with gets none: to
// end one chain of tasks before the next begins leaves the last ones late.
func (placing *placing) successors(at *step, hand *handout, w *member) (found []uint64) {
	ordinary := func(j *placement) bool { return !j.isSuccessor() }
	if placing.localityWait(at) == 0 || len(w.waiting) >= w.total.slots || slices.ContainsFunc(w.waiting, ordinary) {
		return nil
	}
	for _, j := range w.inOrder() {
		if h := placing.successorOf(at, hand, j); j.holding && h != nil && !slices.Contains(found, h.no) {
			found = append(found, h.no)
			placing.follows = true
		}
	}
	return found
}

// successorOf chooses the task that may follow a placement: of the highest
// priority, and of these the oldest; nil if there is none, or one has been given.
func (placing *placing) successorOf(at *step, hand *handout, j *placement) (best *held) {
	for h := range hand.waitersFor(j) {
		switch {
		case len(h.missing) != 1:
		case h.phase == placed && h.placement != nil && h.placement.member == j.member:
			return nil
		case h.phase == waiting && h.searching == 0 && h.no != 0 && cmp.Or(at.class(h.Task).Rank, matcher.DefaultRank) == matcher.DefaultRank && (best == nil || goesBefore(h, best)):
			if _, feasible := placing.matrix.Rank(j.member.id, h.no); feasible {
				best = h
			}
		}
	}
	return best
}

// waitersFor visits the tasks that miss an output of a placement.
func (hand *handout) waitersFor(j *placement) iter.Seq[*held] {
	return func(yield func(*held) bool) {
		if j.held == nil {
			return
		}
		for _, output := range j.held.Task.Outputs {
			if k := hand.files[output.LFN]; k != nil {
				for _, h := range k.waiters[:min(successorLooks, len(k.waiters))] {
					if !yield(h) {
						return
					}
				}
			}
		}
	}
}

// markMakers has those looked at who make the last file that a task misses.
func (site *site) markMakers(h *held) {
	if len(h.missing) != 1 || h.phase != waiting {
		return
	}
	for name := range h.missing {
		for maker := range site.handout.files[name].makerMembers() {
			site.placing.marked[maker.id] = true
		}
	}
}

// passMarked tells the matrix anew what marked members can take.
func (site *site) passMarked(at *step) {
	marked := slices.Sorted(maps.Keys(site.placing.marked))
	clear(site.placing.marked)
	for _, id := range marked {
		if w := site.roster.members[id]; w != nil {
			site.refreshPlaces(at, w)
		}
	}
}

func goesBefore(a, b *held) bool {
	return cmp.Or(cmp.Compare(b.Task.Priority, a.Task.Priority), cmp.Compare(a.Age, b.Age), cmp.Compare(a.no, b.no)) < 0
}

// isSuccessor tells whether an input of a placement does not exist yet: its pilot makes it.
func (j *placement) isSuccessor() bool { return j.held != nil && len(j.held.missing) > 0 }

// makes tells whether a member is thought to be making what a task misses.
func (hand *handout) makes(w *member, h *held) bool {
	for name := range h.missing {
		for maker := range hand.files[name].makerMembers() {
			if maker == w {
				return true
			}
		}
	}
	return false
}

// inputsMade notes that what a successor has waited for exists.
func (site *site) inputsMade(at *step, j *placement) {
	j.member.promote()
	site.refreshPlaces(at, j.member)
}

// publishing is how many payloads of a member have ended of which a reader is ready as soon
// as the outcome has come: for each a place among what is given early is kept until then,
// as another task would have it by a moment, and the reader's input be staged in elsewhere.
func (placing *placing) publishing(at *step, hand *handout, w *member) (n int) {
	if placing.localityWait(at) == 0 {
		return 0
	}
	for _, j := range w.placements {
		if j.phase == over && placing.successorOf(at, hand, j) != nil {
			n++
		}
	}
	return n
}
