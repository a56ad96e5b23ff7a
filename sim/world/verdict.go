package world

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// recoveryLimit is how long after the last fault all work must have ended. The longest
// pauses are those of leases (10 min), of a part that waits for the rest of its site
// (10 min), and of what is tried again ever more rarely.
const recoveryLimit = 2 * time.Hour

// verdict says what must come of every storm.
func (s *storm) verdict() {
	calmed := s.now()
	s.awaitAll()
	s.recovery = s.now() - calmed
	for _, site := range s.world.sites { // the longest pause between two trials is an hour
		if !s.runUntil(2*time.Hour, func() bool { return s.queue.site(site.name).Fallback == "" }) {
			s.judge.Errorf("%s stays isolated: %s", site.name, s.queue.site(site.name).Fallback)
		}
	}
	if !s.runUntil(restLimit, s.manned) {
		s.judge.Errorf("a site waits for pilots")
	}
	s.judgePoison()
	for _, c := range s.clients {
		c.judgeHistory()
	}
	s.comesToRest(s.judgeRest)
	var second taskqueue.Instant
	s.comesToRest(func() { second = s.judgeLeftovers() })
	if !s.runUntil(agreeLimit, s.agrees) {
		s.judge.Errorf("pilots of a site have another master than the queue")
	}
	s.run(quietTime) // a new master, and who comes back to the queue, tells it what it knows
	if calls := s.quietly(); calls > s.quietCalls() {
		s.judge.Errorf("%d calls in %s in which nothing happened", calls, quietTime)
	}
	s.queue.atAGlance(func() {
		s.world.check()
		s.judgeRest()
	})
	s.stopsCancelled()
	s.retriesInTime()
	if second > 0 { // last: all pilots have reached their declared end by then
		s.run(max(0, second.Sub(s.queue.clock())) + 2*garbageTime)
		s.judgeLeftovers()
		return
	}
	s.clearsAway()
}

// quietly waits for quietTime in which no pilot has come or gone, and counts the calls in it.
func (s *storm) quietly() (calls int) {
	for end := s.now() + restLimit; ; {
		living, before := s.living(), s.queue.link.calls
		s.run(quietTime)
		calls = s.queue.link.calls - before
		if slices.Equal(living, s.living()) || s.now() >= end {
			return calls
		}
	}
}

func (s *storm) living() (all []*node) {
	for _, site := range s.world.sites {
		all = append(all, site.live()...)
	}
	return all
}

// quietCalls is how many calls there may be in quietTime in which nothing happens: one a
// second of a site, or three of each pilot that waits at the queue by itself for 10 s.
func (s *storm) quietCalls() (most int) {
	for _, site := range s.world.sites {
		own := int(quietTime / time.Second)
		if record := s.queue.site(site.name); record.InForce().Central() {
			own = max(own, 3*len(site.live()))
		}
		most += own
	}
	return most
}

// agrees tells whether all pilots have the masters that the queue has.
func (s *storm) agrees() bool {
	for _, site := range s.world.sites {
		office := s.queue.site(site.name)
		for _, n := range site.live() {
			if chief, term := n.member.Overlay.Master(); chief.Pilot != office.Master || term != office.Term {
				return false
			}
		}
	}
	return true
}

// stopsCancelled has a user cancel a task that runs for long, at the end of some runs: its
// payload is killed.
func (s *storm) stopsCancelled() {
	d := draws{rand.New(rand.NewPCG(s.plan.Seed, 6))}
	if !d.one(8) {
		return
	}
	id := task.NewID(s.world.submit("long", named("long", []task.Task{one("t")})...), "long.t")
	s.long = id
	runs := func() bool {
		return slices.ContainsFunc(s.world.pilots, func(n *node) bool { return n.alive && slices.Contains(n.running(), id) })
	}
	if !s.runUntil(restLimit, runs) {
		s.judge.Errorf("%s, which a user has submitted after all faults, does not start", id)
	}
	s.queue.must(func(t *taskqueue.Turn) error {
		_, err := s.queue.Rules.CancelTask(t, id)
		return err
	})
	if !s.runUntil(time.Minute, func() bool { return !runs() }) {
		s.judge.Errorf("%s was cancelled and runs all the same", id)
	}
}

// retriesInTime has a user submit a task that fails twice, at the end of some runs: it is
// tried again when its pause is over, since all sites are idle.
func (s *storm) retriesInTime() {
	d := draws{rand.New(rand.NewPCG(s.plan.Seed, 7))}
	if !d.one(4) {
		return
	}
	flow := s.world.submit("twice", named("twice", []task.Task{one("t")})...)
	s.twice = task.NewID(flow, "twice.t")
	for tries := 1; tries <= 2; tries++ {
		due := taskqueue.Instant(0)
		fails := func() bool {
			state := s.queue.tasks(flow)[0]
			due = state.NotBefore
			return state.State == task.Ready && s.world.started[s.twice] == tries
		}
		if !s.runUntil(restLimit, fails) || !s.runUntil(restLimit, func() bool { return s.world.started[s.twice] > tries }) {
			s.judge.Fatalf("%s has been tried %d times only", s.twice, s.world.started[s.twice])
		}
		if late := s.queue.clock().Sub(due); late > retryLimit {
			s.judge.Errorf("%s is tried again %s after the end of its pause", s.twice, late)
		}
	}
	s.world.finish(flow, restLimit)
}

const (
	retryLimit = time.Second      // from the end of a task's pause to its next attempt at an idle site
	restLimit  = 40 * time.Minute // until leases of the dead and what nobody told are gone
	quietTime  = 20 * time.Second
	agreeLimit = 2 * time.Minute // until all have heard who is master
)

// comesToRest waits until nothing is wrong any more, and says what is wrong at the end.
func (s *storm) comesToRest(judge func()) {
	said := s.judge
	for end := s.now() + restLimit; ; s.run(20 * time.Second) {
		found := &atOnce{Judge: said}
		s.judge = found
		s.queue.atAGlance(judge)
		s.judge = said
		if len(found.wrong) == 0 {
			return
		}
		if s.now() >= end {
			s.judge.Errorf("%s", strings.Join(found.wrong, "\n"))
			return
		}
	}
}

// awaitAll waits until all work has ended.
func (s *storm) awaitAll() {
	for _, flow := range s.flows {
		s.endsWell(flow)
	}
	for _, c := range s.clients {
		c.settle()
	}
}

// endsWell waits until a workflow is finished.
func (s *storm) endsWell(flow task.WorkflowID) {
	s.runUntil(recoveryLimit, func() bool { return s.queue.workflow(flow).Over() })
	s.retryAgain(flow)
	s.world.finish(flow, recoveryLimit)
}

// retryAgain retries tasks that have lost so many pilots that this looked like their own
// fault, and those whose retry a copy of the queue did not know, as a user does who knows
// better.
func (s *storm) retryAgain(flow task.WorkflowID) {
	counts := s.queue.workflow(flow).Counts
	if counts[task.Quarantined] == 0 && (counts[task.Cancelled] == 0 || !s.restored()) {
		return
	}
	for _, state := range s.queue.tasks(flow) {
		hosts := make(map[string]bool)
		for _, a := range s.queue.attempts(state.ID) {
			if a.State == taskqueue.AttemptLost || a.State == taskqueue.AttemptDuplicate { // which may have come back since
				hosts[s.queue.pilot(a.Outcome.Attempt.Pilot).Host] = true
			}
		}
		if state.State == task.Quarantined && (state.Losses < 3 || len(hosts) < 2) {
			s.judge.Errorf("%s is quarantined on the evidence of %d pilots at %d nodes", state.ID, state.Losses, len(hosts))
		}
	}
	s.queue.must(func(t *taskqueue.Turn) error {
		_, err := s.queue.Rules.RetryWorkflow(t, flow, false)
		return err
	})
}

func (s *storm) restored() bool { return s.wentBack }

// judgeLeases wants no task to be held by a pilot that is gone.
func (s *storm) judgeLeases() {
	if !s.queue.works() {
		return
	}
	for _, at := range s.world.sites {
		for _, lease := range s.queue.leasesOf(at.name) {
			if lease.Pilot == "" {
				continue
			}
			if state := s.queue.pilot(lease.Pilot).State; !state.Present() {
				s.judge.Fatalf("%s, which is %s, holds lease %d", lease.Pilot, state, lease.ID)
			}
		}
	}
}

// judgeRest wants every list to be true and nothing to be left of work that has ended: no payload, lease,
// outcome, log, upload, file that waits for one, or copy that waits for its deletion.
func (s *storm) judgeRest() {
	if !s.restored() {
		s.world.judgeUse()
	}
	for _, flow := range s.flows {
		for _, state := range s.queue.tasks(flow) {
			s.judgeAttempts(&state)
		}
	}
	for _, site := range s.world.sites {
		s.world.judgePilots(site)
		if leases := s.queue.leasesOf(site.name); len(leases) > 0 {
			s.judge.Errorf("%s has leases although all work has ended: %+v", site.name, leases)
		}
		s.judgeReckoning(site)
		for _, n := range site.live() {
			if s.world.net.Speaks[n.peer] != site.speaks && s.giveWay(site) {
				s.judge.Errorf("%s is of the release before, and stays where pilots of the next wait for it", n.id)
			}
			if s.queue.pilot(n.id).Drain {
				s.judge.Errorf("%s is to be drained and is still there", n.id)
			}
			for _, id := range n.running() {
				s.judge.Errorf("%s still runs %s", n.id, id)
			}
			if n.master.InOffice() && !n.master.Settled() {
				s.judge.Errorf("%s still has %d outcomes that the queue has not judged", n.id, n.master.Waiting())
			}
			if soles := n.files.Soles(); len(n.logs)+len(soles)+n.uploads > 0 { // also of what another pilot has stored meanwhile
				s.judge.Errorf("%s still has %d logs, %d files that wait for their upload, and %d uploads under way", n.id, len(n.logs), len(soles), n.uploads)
			}
		}
	}
}

// judgePilots wants the queue to have for living the pilots of a site that live, and no
// others: as many are not enough, while a dead one stands for one that came back.
func (w *world) judgePilots(at *site) {
	if live, known := at.liveIDs(), w.queue.alive(at.name); !slices.Equal(live, known) {
		w.judge.Errorf("%s has the live pilots %v, the queue has %v", at.name, live, known)
	}
}

// giveWay tells whether pilots of the release before are to leave a site. A queue that was
// put back to a copy may know nothing of those of the next, who joined and went since.
func (s *storm) giveWay(at *site) bool {
	return at.coming > 0 || s.queue.site(at.name).Overlay == at.speaks
}

// judgeReckoning wants what a site's master has told the queue of its slots to be true.
func (s *storm) judgeReckoning(at *site) {
	slots := 0
	for _, n := range at.live() {
		slots += n.slots
	}
	c := s.queue.site(at.name).Capacity
	if c.Slots+c.StoppedSlots != slots || c.Running+c.Assigned+c.Waiting > 0 {
		s.judge.Errorf("%s has %d slots and no work; the queue was told %+v", at.name, slots, c)
	}
}

// judgeUse wants what was used to be booked once, as useful or as wasted.
func (w *world) judgeUse() {
	used, accounted := make(map[task.Site]time.Duration), make(map[task.Site]time.Duration)
	for _, flow := range w.queue.workflows("") {
		for _, state := range w.queue.tasks(flow.ID) {
			for _, a := range w.queue.attempts(state.ID) {
				used[a.Outcome.Site] += a.Outcome.Run
			}
		}
	}
	accounts := func(t *taskqueue.Turn) ([]taskqueue.Usage, error) {
		return t.Usage().Since("", taskqueue.UsageKey{}, 10_000)
	}
	for _, account := range read(w.queue, accounts) {
		accounted[account.Site] += account.Wall
	}
	for _, site := range w.sites {
		if sums := w.queue.site(site.name).Sums; sums.Busy+sums.Wasted != used[site.name] {
			w.judge.Errorf("%s: %s useful and %s wasted are not the %s that attempts took", site.name, sums.Busy, sums.Wasted, used[site.name])
		}
		if accounted[site.name] != used[site.name] {
			w.judge.Errorf("%s: the accounts have %s, attempts took %s", site.name, accounted[site.name], used[site.name])
		}
	}
}

// judgePoison wants each task that kills its pilots to be QUARANTINED.
func (s *storm) judgePoison() {
	for id := range s.poison {
		flow := id.Workflow()
		if s.queue.workflow(flow).ID == "" {
			continue // of after a backup
		}
		if !s.runUntil(recoveryLimit, func() bool { return s.queue.workflow(flow).Over() }) {
			s.judge.Errorf("%s, which kills its pilots, does not end", id)
		}
		if counts := s.queue.workflow(flow).Counts; counts[task.Quarantined] != 1 {
			s.judge.Errorf("%s, which kills its pilots, is not quarantined: %v", id, counts)
		}
	}
}

// judgeAttempts wants one winner of every generation at most, one of the last, no
// attempt without an end, and no two with the same number.
func (s *storm) judgeAttempts(state *taskqueue.TaskState) {
	id := state.ID
	if state.Winner.Generation != state.Generation {
		s.judge.Errorf("%s is in generation %d, and %s has won", id, state.Generation, state.Winner)
	}
	winners := make(map[uint32]int)
	s.world.judgeNumbers(id)
	for _, attempt := range s.queue.attempts(id) {
		switch attempt.State {
		case taskqueue.AttemptSucceeded:
			winners[attempt.Outcome.Attempt.Generation]++
		case taskqueue.AttemptRunning:
			s.judge.Errorf("%s is said to run still at a pilot that is %s", attempt.Outcome.Attempt, s.queue.pilot(attempt.Outcome.Attempt.Pilot).State)
		}
	}
	if len(winners) == 0 {
		s.judge.Errorf("%s has no winner", id)
	}
	for generation, count := range winners {
		if count != 1 {
			s.judge.Errorf("generation %d of %s has %d winners", generation, id, count)
		}
	}
}

// judgeNumbers wants each attempt of a task to have a number of its own, and returns
// how many there are.
func (w *world) judgeNumbers(id task.ID) int {
	taken := make(map[int]bool)
	attempts := w.queue.attempts(id)
	for _, a := range attempts {
		if number := a.Outcome.Number; number < 1 || taken[number] {
			w.judge.Errorf("a%d of %s: %s is not the only one", number, id, a.Outcome.Attempt)
		}
		taken[a.Outcome.Number] = true
	}
	return len(attempts)
}
