package manysites

import (
	"time"

	"github.com/pilotage-grid/pilotage/pilot"
)

// round is how the list of tasks reaches the pilots, as package pilot has it:
// changes are gathered and broadcast, or are broadcast with a fixed period.
type round struct {
	due    time.Duration // gathered changes are broadcast; 0: there are none
	period time.Duration // the next of the fixed ones
	open   bool
	sent   time.Duration
	full   bool // a fixed one is over: the matrix may be solved
}

// fill lists tasks as far as the window reaches.
func (s *site) fill() {
	s.listed.add(s.held.take(s.config.Pilot.Window(len(s.pilots)) - s.listed.len() - s.ready.len())...)
}

func (s *site) nextPeriod() time.Duration {
	if s.config.RoundEvery == 0 {
		return 0
	}
	return s.round.period
}

func (s *site) passRound() {
	now, r := s.timeline.Now(), &s.round
	if s.config.RoundEvery > 0 {
		if now < r.period {
			return
		}
		r.period = now + s.config.RoundEvery
		if s.fill(); s.listed.len() == 0 {
			r.full = true
			return
		}
		s.broadcast()
		return
	}
	if s.held.len() > 0 && s.config.Pilot.Window(len(s.pilots)) > s.listed.len()+s.ready.len() {
		s.fill()
	}
	n := s.listed.len()
	if n == 0 || r.open {
		return // what came since is broadcast when the open one is over
	}
	if due := now + s.config.Pilot.RoundDelay(n); r.due == 0 || due < r.due {
		r.due = due
	}
	if now >= r.due {
		s.broadcast()
	}
}

// broadcast sends the listed tasks over the tree; they may be assigned when all
// pilots have answered.
func (s *site) broadcast() {
	r := &s.round
	r.due, r.open, r.sent = 0, true, s.timeline.Now()
	sent := s.listed.take(s.listed.len())
	s.sums.Rounds++
	s.timeline.After(2*s.hops()*s.config.Latency, func() {
		r.open, r.full = false, true
		s.ready.add(sent...)
		s.pass()
	})
}

// solver is when the matrix is solved.
type solver struct {
	due    time.Duration // again; 0: at the next event
	solved time.Duration
	once   bool
}

// solve gives the oldest tasks to free slots, then to pilots that take one
// early.
func (s *site) solve() {
	now, v := s.timeline.Now(), &s.solver
	if s.config.RoundEvery > 0 && !s.round.full {
		return
	}
	s.round.full, v.due = false, 0
	if s.ready.len() == 0 || len(s.free)+len(s.wants) == 0 {
		return
	}
	if due := v.solved + pilot.SolvePause(len(s.pilots)); v.once && now < due {
		v.due = due
		return
	}
	v.once, v.solved = true, now
	for _, early := range []bool{false, true} {
		places := &s.free
		if early {
			places = &s.wants
		}
		tasks := s.ready.take(len(*places))
		for i, t := range tasks {
			s.give((*places)[i], t, early)
			if early {
				s.early = append(s.early, (*places)[i])
				s.retractSoon()
			}
		}
		*places = append((*places)[:0], (*places)[len(tasks):]...)
	}
	// As the master does before its hand-out runs dry.
	if ready := s.unassigned(); ready < len(s.pilots) && s.talk.lastWaiting >= len(s.pilots) {
		s.soon(0)
	}
}

func (s *site) unassigned() int { return s.held.len() + s.listed.len() + s.ready.len() }
