package master

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// Tasks wait for the pilots that have their inputs (000, section IV-B, with seconds
// for passes): a free slot leaves a task to a pilot that
// ranks it higher and is expected to come to it within the site's locality
// wait, among the next turns of its slots. A slot that has been free for that
// time takes any task that has been ready for that time.

// patient tells whether slots wait. Rounds of a fixed period are those of 004,
// and who works for itself has nobody to leave tasks to.
func (at *step) patient() bool {
	return at.settings.LocalityWait > 0 && at.settings.RoundEvery == 0 && !at.own.on
}

// setPatience has the matrix solved by the settings of the moment.
func (site *site) setPatience(at *step) {
	look := outlook{at, &site.roster, &site.list, &site.placing, &site.replication}
	site.placing.matrix.SetPatience(nil)
	if at.patient() {
		site.placing.matrix.SetPatience(look)
	}
	site.placing.matrix.SetForesight(look)
}

// comesTo is how many waiting tasks a pilot comes to soon, beside what it was given early.
func (placing *placing) comesTo(at *step, roster *roster, replicas *replication, id task.PilotID) int {
	w := roster.members[id]
	if w == nil {
		return 0
	}
	return max(0, placing.turns(at, replicas, w)-len(w.waiting))
}

// waits tells whether a pilot has not been idle for long.
func (placing *placing) waits(at *step, roster *roster, id task.PilotID) bool {
	w := roster.members[id]
	return w != nil && (w.idleSince.IsZero() || at.now.Sub(w.idleSince) < at.settings.LocalityWait)
}

// fresh tells whether a task has not been ready for long.
func (placing *placing) fresh(at *step, list *list, no uint64) bool {
	h := list.owner[no]
	return h != nil && at.now.Sub(h.readySince) < at.settings.LocalityWait
}

// turns is how many tasks a member is expected to start within the locality
// wait, if tasks take as long as usual. One that a plan has reserved starts what
// its plan says.
func (placing *placing) turns(at *step, replicas *replication, w *member) int {
	if w.takesNone() || replicas.reserved[w.id] {
		return 0
	}
	turns := placing.turnsAfter(at, 0) * w.freeSlots()
	for _, j := range w.placements {
		if j.holding {
			turns += placing.turnsAfter(at, placing.left(at, j))
		}
	}
	return turns
}

// turnsAfter is how many tasks a slot starts that is free after so long.
func (placing *placing) turnsAfter(at *step, free time.Duration) int {
	wait := at.settings.LocalityWait
	switch {
	case free > wait:
		return 0
	case placing.usualRun <= 0:
		return 1
	}
	return min(matcher.TurnsWaitedFor, 1+int((wait-free)/placing.usualRun))
}

// left is how much longer a placement is expected to hold its slot: not at all, when
// it has taken as long as usual; when it has taken longer by the locality wait,
// nobody knows.
func (placing *placing) left(at *step, j *placement) time.Duration {
	unknown := at.settings.LocalityWait + 1
	if placing.usualRun <= 0 {
		return unknown
	}
	left := j.remaining(placing.usualRun, at.now)
	if left < -at.settings.LocalityWait {
		return unknown
	}
	return max(0, left)
}

// leavesTo tells whether a member's free slot leaves a task to the member that
// has been given it early.
func (placing *placing) leavesTo(at *step, roster *roster, list *list, replicas *replication, w *member, j *placement) bool {
	if !at.patient() || !placing.matrix.Raises(j.member.id, j.held.no) || !placing.waits(at, roster, w.id) && !placing.fresh(at, list, j.held.no) {
		return false
	}
	turn := slices.Index(j.member.waiting, j)
	return turn >= 0 && turn < placing.turns(at, replicas, j.member)
}

const (
	// publishWait is how long a free slot is kept for a task that reads what
	// the one before is about to publish.
	publishWait = time.Second
	// looks is how often waiting slots look again within the locality wait, but
	// no sooner than leastLook after the last time.
	looks     = 8
	leastLook = 20 * time.Millisecond
)

// lookPause is the time between two looks of slots that wait.
func (at *step) lookPause() time.Duration { return max(leastLook, at.settings.LocalityWait/looks) }

func (at *step) publishWait() time.Duration { return min(publishWait, at.settings.LocalityWait) }

// lookAgain has the matrix solved again after a while in which nothing else may
// happen: waits end by time alone.
func (placing *placing) lookAgain(at *step, after time.Duration) {
	if due := at.now.Add(after); placing.waitDue.IsZero() || due.Before(placing.waitDue) {
		placing.waitDue = due
	}
}

// passWaits looks again at slots that are free.
func (site *site) passWaits(at *step) {
	if site.placing.waitDue.IsZero() || at.now.Before(site.placing.waitDue) {
		return
	}
	site.placing.waitDue = time.Time{}
	for _, id := range slices.Sorted(maps.Keys(site.roster.members)) {
		if w := site.roster.members[id]; w.keptFree > 0 {
			site.refreshPlaces(at, w)
		}
	}
	site.placing.unsolved = true
}
