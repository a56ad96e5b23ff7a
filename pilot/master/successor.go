package master

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// A successor is a task that misses nothing but what another one is making. It
// has its input in the cache of that one's pilot the moment it can run, so its
// best place is the slot that has just become free. Where a site gives tasks
// early, that pilot is given it early, and starts it without anybody being
// asked; where not, the slot is kept for it.

// longTask is from when on successors count: beside shorter tasks it costs more
// that a slot has nothing else to go on with.
const longTask = time.Second

// successorLooks bounds the readers of an output among which successors are
// sought, oldest first.
const successorLooks = 64

// countsSuccessors tells whether successors count at all.
func (placing *placing) countsSuccessors(at *step) bool {
	return at.patient() && placing.leavesTasks(at) && (placing.usualRun <= 0 || placing.usualRun >= longTask)
}

// successors counts the listed tasks that are ready, with their input in a
// member's cache, when what it has in hand has ended, and that would have to wait
// for, or to copy it from, a slot that had been given another task early.
// Counted are at most as many as the member has slots, and none that it has
// been given.
func (placing *placing) successors(at *step, hand *handout, w *member) (count int) {
	if !placing.countsSuccessors(at) {
		return 0
	}
	for _, j := range w.placements {
		count += len(placing.successorsOf(hand, j))
	}
	return min(count, w.total.slots)
}

// aboutToStart counts the successors of what a member is publishing, with those
// that it has been given.
func (placing *placing) aboutToStart(at *step, hand *handout, w *member) (count int) {
	if !placing.countsSuccessors(at) {
		return 0
	}
	for _, j := range w.placements {
		if j.phase == over && at.now.Sub(j.ended) < at.publishWait() {
			count += len(placing.successorsOf(hand, j)) + hand.givenSuccessors(j)
		}
	}
	return min(count, w.total.slots)
}

// successorsOf lists the successors of a placement that are at no pilot.
func (placing *placing) successorsOf(hand *handout, j *placement) (found []*held) {
	for h := range hand.waitersFor(j) {
		if h.phase == waiting && placing.maySucceed(j.member, h) {
			found = append(found, h)
		}
		if len(found) >= j.member.total.slots {
			break
		}
	}
	return found
}

// givenSuccessors counts the tasks that have been given to a placement's pilot as its
// successors.
func (hand *handout) givenSuccessors(j *placement) (count int) {
	for h := range hand.waitersFor(j) {
		if h.phase == placed && h.placement != nil && h.placement.member == j.member && len(h.missing) == 1 {
			count++
		}
		if count >= j.member.total.slots {
			break
		}
	}
	return count
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

// maySucceed tells whether a task misses one file alone, and may run at its maker.
func (placing *placing) maySucceed(w *member, h *held) bool {
	if len(h.missing) != 1 || h.searching > 0 || h.no == 0 {
		return false
	}
	_, feasible := placing.matrix.Rank(w.id, h.no)
	return feasible
}

// markForSuccessors has a member looked at by the next passSuccessors.
func (placing *placing) markForSuccessors(w *member) { placing.toLookAt[w.id] = true }

// markMakers has those looked at who make the last file that a task misses.
func (placing *placing) markMakers(hand *handout, h *held) {
	if len(h.missing) != 1 || h.phase != waiting {
		return
	}
	for name := range h.missing {
		for maker := range hand.files[name].makerMembers() {
			placing.markForSuccessors(maker)
		}
	}
}

// passSuccessors gives members the successors of what they run.
func (site *site) passSuccessors(at *step, outbox *outbox) {
	if len(site.placing.toLookAt) == 0 || !site.mayStart(at, outbox) {
		return
	}
	members := slices.Sorted(maps.Keys(site.placing.toLookAt))
	clear(site.placing.toLookAt)
	if !site.placing.countsSuccessors(at) || site.list.live > 0 {
		return
	}
	batches := make(map[task.PilotID][]message.Assignment)
	at.serial++
	for _, id := range members {
		if w := site.roster.members[id]; w != nil {
			if given := site.successorsFor(at, w); len(given) > 0 {
				batches[id] = given
			}
		}
	}
	site.send(at, batches)
}

// successorsFor binds a member to a successor for each slot that has one and no
// task to go on with.
func (site *site) successorsFor(at *step, w *member) (given []message.Assignment) {
	if !w.described || w.health != health.Fit || w.draining || site.replication.reserved[w.id] || site.placing.matrix.Keeping(w.id) {
		return nil
	}
	most := site.placing.prefillPerSlot(at) * w.total.slots
	for _, j := range w.inOrder() {
		if !j.holding || len(w.waiting) >= most || site.handout.givenSuccessors(j) > 0 {
			continue
		}
		if h := site.placing.successorOf(at, &site.handout, j); h != nil {
			given = append(given, site.bind(at, h, w, true))
			site.placing.matrix.Placed(w.id, h.no)
		}
	}
	return given
}

// successorOf chooses the successor that a placement's slot goes on with: of the
// highest priority, and of these the oldest.
func (placing *placing) successorOf(at *step, hand *handout, j *placement) (best *held) {
	for h := range hand.waitersFor(j) {
		if h.phase == waiting && placing.maySucceed(j.member, h) && placing.undisputed(at, j.member, h) && (best == nil || goesBefore(h, best)) {
			best = h
		}
	}
	return best
}

// undisputed tells whether nothing else decides about a successor: its rank looks
// at files, no other pilot has some of its inputs, which ranks would have to
// weigh, and no ready task goes before it by priority or because it was passed
// over too often.
func (placing *placing) undisputed(at *step, w *member, h *held) bool {
	rank, err := placing.compiler.Rank(at.class(h.Task).Rank)
	return err == nil && rank.Files() && !placing.matrix.RaisedElsewhere(w.id, h.no) && !placing.matrix.Outranked(w.id, h.Task.Priority)
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
