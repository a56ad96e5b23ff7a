package master

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// placement is a task at a pilot, assigned or running, as the master keeps it.
type placement struct {
	message.LeasedID
	generation uint32
	held       *held // nil: the site does not hold the task (any more)
	member     *member
	attempt    task.AttemptID // once its start was heard of
	need       task.Resources
	serial     uint64 // of the Assign that carried it; 0 when it was found in a state
	order      uint64 // of assignment
	since      time.Time
	began      time.Time // when its start was heard of
	phase      placementPhase
	holding    bool // has a slot
	retracting bool
}

// placementPhase is how far an assignment has come.
type placementPhase uint8

const (
	assigned placementPhase = iota // payload not started
	started
	over // payload has ended, the outcome follows
)

// ran is for how long the payload of a placement has run.
func (j *placement) ran(now time.Time) time.Duration {
	if j.phase == assigned {
		return 0
	}
	return now.Sub(j.began)
}

// remaining is how much of a usual run a placement has left; below 0 when it has taken longer.
func (j *placement) remaining(usual time.Duration, now time.Time) time.Duration {
	return usual - j.ran(now)
}

func byOrder(a, b *placement) int { return cmp.Compare(a.order, b.order) }

// taskCounts are kept so that no step looks at every task.
type taskCounts struct {
	phases  [ended + 1]int     // held tasks by phase
	listed  [ready + 1]int     // of them, on the list and not at a pilot
	classes map[task.Class]int // not at a pilot
	running int                // held tasks whose payload was started
}

// siteSize is kept so that no step looks at every member.
type siteSize struct {
	slots     int // of members that are not draining
	free      int
	described int // members whose state has come
	orders    uint64
}

func (s *taskCounts) count(h *held, by int) {
	s.phases[h.phase] += by
	if h.phase > ready {
		return
	}
	if h.no != 0 {
		s.listed[h.phase] += by
	}
	class := h.Task.Class()
	if s.classes[class] += by; s.classes[class] == 0 {
		delete(s.classes, class)
	}
}

// place notes that a member has a task. Until it is attached to a held one it
// is a stray: late work is still work.
func (roster *roster) place(at *step, hand *handout, w *member, id message.LeasedID, generation uint32, need task.Resources) *placement {
	roster.size.orders++
	j := &placement{LeasedID: id, generation: generation, member: w, need: need, order: roster.size.orders, since: at.now}
	w.placements[id] = j
	hand.strays[j.Task] = append(hand.strays[j.Task], j)
	return j
}

// attach ties a placement to the held task that it runs, maybe under an older lease.
func (site *site) attach(at *step, j *placement, h *held) {
	site.handout.unstray(j)
	j.held, h.placement = h, j
	site.handout.setPhase(&site.placing, &site.replication, h, placed)
	if j.phase != assigned {
		site.handout.counts.running++
		site.unlist(at, h)
	}
}

// detach unties a placement from its task and returns that.
func (hand *handout) detach(j *placement) *held {
	h := j.held
	if h == nil {
		return nil
	}
	if j.phase != assigned {
		hand.counts.running--
	}
	j.held, h.placement = nil, nil
	hand.strays[j.Task] = append(hand.strays[j.Task], j)
	return h
}

func (hand *handout) unstray(j *placement) {
	rest := slices.DeleteFunc(hand.strays[j.Task], func(other *placement) bool { return other == j })
	if len(rest) == 0 {
		delete(hand.strays, j.Task)
	} else {
		hand.strays[j.Task] = rest
	}
}

// remove ends a task's stay at its pilot and returns it, if it is held.
func (hand *handout) remove(j *placement) *held {
	h := hand.detach(j)
	hand.unstray(j)
	delete(j.member.placements, j.LeasedID)
	return h
}

// drop ends a task's stay at its pilot and gives the slot to the next one
// there, as the pilot itself does. It returns the task, if it is held.
func (site *site) drop(at *step, j *placement) *held {
	w := j.member
	h := site.handout.remove(j)
	w.unwait(j)
	w.release(j)
	w.promote()
	site.refreshPlaces(at, w)
	return h
}

// start notes that a placement's payload has been started.
func (site *site) start(at *step, outbox *outbox, j *placement, attempt task.AttemptID) {
	if j.phase != assigned {
		return
	}
	w := j.member
	j.attempt = attempt
	j.phase, j.retracting, j.began = started, false, at.now
	w.unwait(j)
	if !j.holding {
		w.take(j)
		site.refreshPlaces(at, w)
	}
	if h := j.held; h != nil {
		site.handout.counts.running++
		site.unlist(at, h)
		if h.recalled { // too late
			h.recalled = false
			outbox.confirm(at, &site.handout, task.Revoked{Lease: h.lease, Task: h.Task.ID})
		}
	}
}

// finish notes that a placement's payload has ended: its slot is free.
func (site *site) finish(at *step, outbox *outbox, j *placement, attempt task.AttemptID) {
	site.start(at, outbox, j, attempt)
	j.phase = over
	j.member.release(j)
	j.member.promote()
	site.refreshPlaces(at, j.member)
}

// refreshPlaces tells the matrix what a member can take.
func (site *site) refreshPlaces(at *step, w *member) {
	if site.roster.members[w.id] != w || !w.described {
		return
	}
	var places matcher.Places
	var now counted
	if !site.roster.takesNone(w) {
		places.Free = w.total.resources.Sub(w.used.resources)
		places.FreeSlots = w.freeSlots()
		places.Prefill = max(0, w.prefillOf(at)-site.placing.publishing(at, &site.handout, w))
		if places.Prefill > 0 {
			places.Ending = w.ending()
			places.Next = site.placing.successors(at, &site.handout, w)
		}
		site.roster.onTrial(w, &places)
		now = counted{w.total.slots, places.FreeSlots}
		site.list.oneByOne(w, &places)
	}
	if site.replication.reserved[w.id] {
		places, now.free = matcher.Places{}, 0 // its plan gives it tasks
	}
	places.Closed = site.roster.takesNone(w) || site.replication.reserved[w.id]
	site.placing.matrix.SetPlaces(w.id, places)
	site.placing.unsolved = true
	site.roster.size.slots += now.slots - w.counted.slots
	site.roster.size.free += now.free - w.counted.free
	w.counted = now
	switch {
	case now.free == 0:
		w.idleSince = time.Time{}
	case w.idleSince.IsZero():
		w.idleSince = at.now
		site.placing.retractSoon(at)
	}
}

// oneByOne has a member get the next task only when its ranks show the one
// before, while ranks are listed that look at what runs at a pilot (004, section
// II): else all its slots would be filled by what it was before the first.
func (l *list) oneByOne(w *member, places *matcher.Places) {
	if l.live == 0 {
		return
	}
	places.Prefill = 0
	places.FreeSlots = min(places.FreeSlots, 1)
	if w.talk.seen < w.talk.given {
		places.FreeSlots = 0
	}
}

// refreshAll tells the matrix what every member can take.
func (site *site) refreshAll(at *step) {
	for _, w := range byKey(site.roster.members) {
		site.refreshPlaces(at, w)
	}
}

// prefillPerSlot is how many tasks a slot gets early: more where they are very
// short.
func (at *step) prefillPerSlot() int {
	usual := at.settings.Prefill
	if usual == 0 || at.usualRun <= 0 {
		return usual
	}
	return max(usual, min(at.config.Placing.PrefillMost, int(at.config.Placing.PrefillTime/at.usualRun)))
}

// prefillOf is how many more tasks a member may be given early.
func (w *member) prefillOf(at *step) int {
	early := 0
	for _, j := range w.waiting {
		if !j.isSuccessor() {
			early++
		}
	}
	return max(0, at.prefillPerSlot()*w.total.slots-early)
}

// learnRun takes a payload's time into account: a long one at once, shorter
// ones slowly, because too deep a prefill costs more than too shallow a one.
func (at *step) learnRun(run time.Duration) {
	if run >= at.usualRun {
		at.usualRun = run
	} else {
		at.usualRun -= (at.usualRun - run) / 16
	}
}

// retractSoon has idle slots look for prefilled tasks a while from now.
func (placing *placing) retractSoon(at *step) { placing.retractIn(at, at.config.Placing.RetractAfter) }

func (placing *placing) retractIn(at *step, wait time.Duration) {
	if due := at.now.Add(wait); placing.retractAt.IsZero() || due.Before(placing.retractAt) {
		placing.retractAt = due
	}
}

// retractBudget bounds the pairs that one pass looks at, so that a site full
// of idle pilots and of prefilled tasks that they cannot run costs little.
const retractBudget = 10_000

// passRetracts takes tasks that were given early back for slots that have found nothing
// for a while: of all the one that loses least there, longest waiting first.
func (site *site) passRetracts(at *step, outbox *outbox) {
	if site.placing.retractAt.IsZero() || at.now.Before(site.placing.retractAt) {
		return
	}
	site.placing.retractAt = time.Time{}
	if !site.mayStart(at, outbox) {
		site.placing.retractAt = at.now.Add(at.config.Queue.Every)
		return
	}
	if site.roster.size.free == 0 {
		return
	}
	prefilled, retracting := site.givenEarly(at)
	if len(prefilled) == 0 {
		return
	}
	budget := retractBudget
	for _, w := range site.roster.idle() {
		if site.placing.matrix.Keeping(w.id) {
			continue
		}
		if at.now.Sub(w.idleSince) < at.config.Placing.RetractAfter {
			site.placing.retractSoon(at)
			continue
		}
		wanted := w.counted.free
		credit := min(retracting, wanted) // these are on their way to somebody
		retracting -= credit
		for range wanted - credit {
			best, loss := site.placing.gainsMost(w, prefilled, &budget)
			if best < 0 {
				break
			}
			if loss > 0 {
				site.placing.retractIn(at, max(leastLook, time.Duration(loss*float64(time.Second))))
				break
			}
			at.retract(prefilled[best].placement)
			prefilled = slices.Delete(prefilled, best, best+1)
		}
	}
}

// gainsMost is which of the tasks that were given early to others loses least in a free
// slot of a member, and what it loses; none, -1, also where the budget of pairs ends.
func (placing *placing) gainsMost(w *member, prefilled []givenEarly, budget *int) (best int, least float64) {
	best = -1
	for i := range prefilled {
		if *budget--; *budget < 0 {
			return -1, 0
		}
		early := &prefilled[i]
		if _, feasible := placing.matrix.Rank(w.id, early.held.no); !feasible || early.member == w || !w.fits(early.need) {
			continue
		}
		if loss := placing.loses(w, early); best < 0 || loss < least {
			best, least = i, loss
		}
	}
	return best, least
}

// givenEarly is a placement that waits for a slot.
type givenEarly struct {
	*placement
	wait  time.Duration // until its pilot comes to it
	waits bool          // that counts
	late  bool          // beyond the locality wait
}

// givenEarly lists the placements that wait for a slot, longest first, and counts
// those that have been asked for.
func (site *site) givenEarly(at *step) (all []givenEarly, retracting int) {
	look, most := site.outlook(at), site.placing.localityWait(at)
	for _, w := range site.roster.members {
		load, known := matcher.Occupancy{}, false
		if len(w.waiting) > 0 && most > 0 {
			load, known = look.likely(w.id)
		}
		for _, j := range w.placements {
			switch {
			case j.retracting:
				retracting++
			case !j.holding && j.phase == assigned && j.held != nil && !j.isSuccessor():
				early := givenEarly{placement: j}
				if turn := slices.Index(w.waiting, j); known && turn >= 0 {
					early.wait, early.waits = load.Wait(turn), true
					early.late = early.wait > most
				}
				all = append(all, early)
			}
		}
	}
	slices.SortFunc(all, func(a, b givenEarly) int { return byOrder(a.placement, b.placement) })
	return all, retracting
}

// loses is the seconds by which a task that was given early to one member starts later
// in another one's free slot; it is left to nobody who comes to it only after the
// locality wait.
func (placing *placing) loses(w *member, early *givenEarly) float64 {
	if !early.waits {
		return 0
	}
	loss := placing.matrix.Loses(early.held.no, w.id, early.member.id, early.wait)
	if early.late {
		return min(loss, 0)
	}
	return loss
}

// idle lists members with free slots, longest first.
func (roster *roster) idle() []*member {
	var idle []*member
	for _, w := range roster.members {
		if !w.idleSince.IsZero() {
			idle = append(idle, w)
		}
	}
	slices.SortFunc(idle, func(a, b *member) int {
		return cmp.Or(a.idleSince.Compare(b.idleSince), cmp.Compare(a.id, b.id))
	})
	return idle
}

func (at *step) retract(j *placement) {
	if j.retracting {
		return
	}
	j.retracting = true
	at.tell(j.member, message.Retract{Term: at.term, Task: j.Task, Lease: j.Lease})
}
