package manysites

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/task"
)

// site is a site with its master's knowledge of it.
type site struct {
	*world
	name   task.Site
	index  int
	term   task.Term
	pilots []member

	held   backlog // not listed
	listed backlog // on the list, not known to the pilots before the round is over
	ready  backlog // to be assigned
	leases map[task.LeaseID]int
	free   []int32 // pilots whose slot is free, as the master knows
	wants  []int32 // those that may be given a task early
	early  []int32 // pilots that were given a task early, oldest first
	given  int     // tasks at pilots
	runs   int     // of them, known to be started

	retractAt  time.Duration // idle slots look for tasks given early; 0: never
	retracting int

	solver solver
	round  round
	talk   talk
	wakes  *sim.Event
	wakeAt time.Duration
}

// leased is a task in a site's hands.
type leased struct {
	id         task.ID
	lease      task.LeaseID
	generation uint32
	number     int
}

// backlog is a queue of tasks, oldest first.
type backlog struct {
	tasks []leased
	from  int
}

func (b *backlog) len() int { return len(b.tasks) - b.from }

func (b *backlog) add(tasks ...leased) { b.tasks = append(b.tasks, tasks...) }

// take removes the oldest n.
func (b *backlog) take(n int) []leased {
	n = min(n, b.len())
	taken := slices.Clone(b.tasks[b.from : b.from+n])
	b.from += n
	if b.from > len(b.tasks)/2 {
		b.tasks = append([]leased(nil), b.tasks[b.from:]...)
		b.from = 0
	}
	return taken
}

// drop removes those that are wanted elsewhere.
func (b *backlog) drop(wanted func(leased) bool) (dropped []leased) {
	rest := make([]leased, 0, b.len())
	for _, t := range b.tasks[b.from:] {
		if wanted(t) {
			dropped = append(dropped, t)
		} else {
			rest = append(rest, t)
		}
	}
	b.tasks, b.from = rest, 0
	return dropped
}

func newSite(w *world, index int) *site {
	return &site{
		world: w, name: task.Site(fmt.Sprintf("site%03d", index)), index: index,
		pilots: make([]member, w.config.Pilots), leases: make(map[task.LeaseID]int),
	}
}

func (s *site) peer(i int) task.PeerID { return task.PeerID(fmt.Sprintf("peer%03d.%05d", s.index, i)) }

// hops is how many an eightfold tree over the pilots has.
func (s *site) hops() time.Duration {
	hops := time.Duration(1)
	for reach := 8; reach < len(s.pilots); reach *= 8 {
		hops++
	}
	return hops
}

// begin puts the master into office, with all pilots known to it.
func (s *site) begin() {
	for i := range s.pilots {
		s.free = append(s.free, int32(i))
		for range s.config.Prefill {
			s.wants = append(s.wants, int32(i))
		}
	}
	s.talk.poll = s.timeline.Now()
	s.round.period = s.timeline.Now()
	s.pass()
}

// pass does what is due, and sees to it that it is called when something is.
func (s *site) pass() {
	s.passRound()
	s.solve()
	s.passRetracts()
	s.passTalk()
	next := s.nextTalk()
	for _, at := range []time.Duration{s.round.due, s.solver.due, s.nextPeriod(), s.retractAt} {
		if at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	if next == s.wakeAt && s.wakes != nil {
		return
	}
	s.timeline.Cancel(s.wakes)
	s.wakes, s.wakeAt = nil, next
	if next > 0 {
		s.wakes = s.timeline.After(next-s.timeline.Now(), func() {
			s.wakes = nil
			s.pass()
		})
	}
}
