package manysites

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// member is a pilot with one slot.
type member struct {
	id      task.PilotID
	counter uint64
	busy    bool
	ended   time.Duration // when its last payload did
	next    []leased      // given early
}

// give sends a task to a pilot.
func (s *site) give(i int32, t leased, early bool) {
	s.given++
	s.timeline.After(s.config.Latency, func() {
		p := &s.pilots[i]
		if p.busy {
			p.next = append(p.next, t)
			return
		}
		s.start(i, t)
		if early {
			// Its slot became free on the way: the master learns of that and of
			// the start together.
			s.free = slices.DeleteFunc(s.free, func(other int32) bool { return other == i })
		}
	})
}

// start runs a payload; the master learns of it with the pilot's next report.
func (s *site) start(i int32, t leased) {
	p, now := &s.pilots[i], s.timeline.Now()
	p.busy = true
	p.counter++
	attempt := task.AttemptID{Task: t.id, Generation: t.generation, Lease: t.lease, Pilot: p.id, Counter: p.counter}
	delay := time.Duration(-1)
	if p.ended > 0 {
		delay = now - p.ended
		s.sums.delay(delay)
	} else if s.sums.Filled++; s.sums.Filled == len(s.world.sites)*len(s.pilots) {
		s.sums.FirstFill = now
	}
	s.world.busy++
	s.timeline.After(s.config.Pilot.ReportDelay+s.config.Latency, func() { s.started(attempt, t) })
	lasts := s.lasts()
	s.timeline.After(lasts, func() { s.end(i, t, attempt, lasts, delay) })
}

// started brings the word of a start to the master.
func (s *site) started(attempt task.AttemptID, t leased) {
	s.runs++
	s.talk.starts = append(s.talk.starts, task.Start{Attempt: attempt, Number: t.number})
	s.soon(s.config.Pilot.SyncDelay)
	s.pass()
}

// end ends a payload. The next one, if it is there, starts at once; the outcome
// does not wait.
func (s *site) end(i int32, t leased, attempt task.AttemptID, lasted, delay time.Duration) {
	p := &s.pilots[i]
	p.busy, p.ended = false, s.timeline.Now()
	s.world.busy--
	s.sums.Computing += lasted
	goesOn := len(p.next) > 0
	if goesOn {
		next := p.next[0]
		p.next = p.next[1:]
		s.start(i, next)
	}
	outcome := task.Outcome{Attempt: attempt, Number: t.number, Site: s.name, OK: true, Run: lasted, Delay: delay}
	s.timeline.After(s.config.Latency, func() {
		s.given--
		s.runs--
		switch {
		case goesOn:
			s.wants = append(s.wants, i)
		case !s.pilots[i].busy:
			s.free = append(s.free, i)
			s.retractSoon()
		}
		s.talk.outcomes = append(s.talk.outcomes, outcome)
		s.outcomeSoon()
		s.pass()
	})
}

// retractSoon has idle slots look for tasks that others were given early.
func (s *site) retractSoon() {
	if s.retractAt == 0 {
		s.retractAt = s.timeline.Now() + s.config.Pilot.RetractAfter
	}
}

// passRetracts asks for tasks that were given early, oldest first, as many as
// there are free slots.
func (s *site) passRetracts() {
	if s.retractAt == 0 || s.timeline.Now() < s.retractAt {
		return
	}
	s.retractAt = 0
	for wanted := len(s.free) - s.retracting; wanted > 0 && len(s.early) > 0; {
		i := s.early[0]
		s.early = s.early[1:]
		if len(s.pilots[i].next) > 0 {
			s.retract(i)
			wanted--
		}
	}
}

func (s *site) retract(i int32) {
	s.retracting++
	s.timeline.After(s.config.Latency, func() {
		p := &s.pilots[i]
		var back []leased
		if len(p.next) > 0 {
			back = p.next[:1:1]
			p.next = p.next[1:]
		}
		s.timeline.After(s.config.Latency, func() {
			s.retracting--
			s.retractSoon()
			if len(back) > 0 {
				s.given--
				s.wants = append(s.wants, i)
				s.ready.add(back...)
			}
			s.pass()
		})
	})
}
