package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// phase of an attempt at its worker.
type phase uint8

const (
	awaiting   phase = iota // waits for inputs that a payload here is making
	crowded                 // waits for room in the cache
	staging                 // inputs are being fetched
	staged                  // ready to start, waits for a slot
	running                 // payload started
	publishing              // payload ended well, outputs go to the cache
)

// attempt is an assignment at its worker.
type attempt struct {
	id task.AttemptID
	message.Assignment
	phase    phase
	ready    time.Time // since when it could have been run, as the master says
	received time.Time // and since when its inputs can be fetched
	reads    []task.Read
	stageIn  time.Duration
	delay    time.Duration
	begun    time.Time // when the payload was started
	killed   string    // why it is being killed
	holding  bool      // holds a slot and resources
	beside   bool      // others have had inputs since it began to stage its own in
}

// attempts are what a pilot has in hand.
type attempts struct {
	inHand  map[task.AttemptID]*attempt
	last    uint64 // counter of the latest
	slots   slots
	proven  bool // the last payload that counts has ended well
	roomier bool // there may be more room in the cache than when the last one found none
}

func (s *attempts) find(id task.ID, lease task.LeaseID) *attempt {
	for _, a := range s.inHand {
		if a.Task.ID == id && a.Lease == lease {
			return a
		}
	}
	return nil
}

// in returns an attempt if it is in a phase.
func (s *attempts) in(p phase, id task.AttemptID) *attempt {
	if a := s.inHand[id]; a != nil && a.phase == p {
		return a
	}
	return nil
}

// which lists those of a kind, oldest first.
func (s *attempts) which(kind func(*attempt) bool) (found []*attempt) {
	for _, a := range s.inHand {
		if kind(a) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b *attempt) int { return oldestFirst(a.id, b.id) })
	return found
}

func oldestFirst(a, b task.AttemptID) int { return cmp.Compare(a.Counter, b.Counter) }

func (s *attempts) count(kind func(*attempt) bool) (n int) {
	for _, a := range s.inHand {
		if kind(a) {
			n++
		}
	}
	return n
}

// take begins an attempt: its inputs are staged in at once, whether it starts now
// or waits for a slot, but for a successor's, which are staged in when the last
// of them is made.
func (s *attempts) take(at *step, self task.PilotID, given message.Assignment) {
	s.last++
	a := &attempt{
		Assignment: given, phase: staging, ready: at.now.Add(-given.Waited), received: at.now, delay: -1,
		id: task.AttemptID{Task: given.Task.ID, Generation: given.Generation, Lease: given.Lease, Pilot: self, Counter: s.last},
	}
	s.inHand[a.id] = a
	if a.awaits() {
		a.Files = slices.Clone(a.Files) // it fills them in
		a.phase = awaiting
		return
	}
	s.slots.hold(a)
	s.stage(at, a)
}

// forget takes an attempt out; what it had pinned makes room.
func (s *attempts) forget(a *attempt) {
	s.slots.release(a)
	delete(s.inHand, a.id)
	s.roomier = true
}

// drop forgets an attempt whose pins and folder nobody needs.
func (s *attempts) drop(at *step, a *attempt) {
	s.forget(a)
	at.act(Discard{Attempt: a.id})
}

func (s *attempts) stagedIn(at *step, e StagedIn) *attempt {
	a := s.in(staging, e.Attempt)
	if a == nil {
		return nil
	}
	a.phase, a.reads, a.stageIn = staged, e.Reads, at.now.Sub(a.received)
	s.roomier = true // at least this one was not too much: the next may try
	return a
}

// startWhatFits starts staged attempts, oldest first; a prefilled one takes the
// place of a payload that has ended.
func (s *attempts) startWhatFits(at *step) {
	for _, a := range s.which(func(a *attempt) bool { return a.phase > awaiting && a.phase <= staged }) {
		if s.slots.hold(a); a.holding && a.phase == staged {
			a.phase = running
			at.act(StartPayload{Attempt: a.id, Assignment: a.Assignment})
		}
	}
}

// started takes the start of a payload, and the delay since the one before in
// its slot. That counts only if the task could have run when the slot became free,
// or was here by then: a successor's counts with the publishing that it waits for.
func (s *attempts) started(at *step, e PayloadStarted) {
	a := s.in(running, e.Attempt)
	if a == nil || !a.begun.IsZero() {
		return
	}
	a.begun = e.At
	if n := len(s.slots.freed); n > 0 { // the one that became free last is taken first
		free := s.slots.freed[n-1]
		s.slots.freed = s.slots.freed[:n-1]
		if !a.ready.After(free) {
			a.delay = max(0, e.At.Sub(free))
		}
	}
	at.news.Starts = append(at.news.Starts, task.Start{Attempt: a.id, Number: a.Number, Started: e.At, Process: e.Process})
	at.later()
}

// judge has a payload count for what is started next: a pilot at which one fails before
// any has ended well, or two in a row, gives back what it has been given early. Its master
// gives that anew, or elsewhere when too many fail here.
func (s *attempts) judge(at *step, outcome *task.Outcome) {
	end, counts := health.Ended("", outcome)
	if !counts {
		return
	}
	if !end.OK && !s.proven {
		for _, a := range s.which(func(a *attempt) bool { return !a.holding && a.phase > awaiting && a.phase <= staged }) {
			s.drop(at, a)
			at.answerRetract(a, true)
		}
	}
	s.proven = end.OK
}

// retract gives a prefilled task back, unless it has been started.
func (s *attempts) retract(at *step, m message.Retract) {
	a := s.find(m.Task, m.Lease)
	if a == nil {
		return // handed back or ended already: that news is on its way
	}
	unstarted := a.phase < running
	if unstarted {
		s.drop(at, a)
	}
	at.answerRetract(a, unstarted)
}

func (at *step) answerRetract(a *attempt, retracted bool) {
	at.news.Retracts = append(at.news.Retracts, message.RetractAnswer{Task: a.Task.ID, Lease: a.Lease, Retracted: retracted})
	at.soon(0)
}

func (at *step) handBack(a message.Assignment, reason string, missing ...task.File) {
	at.news.Returned = append(at.news.Returned, message.Handback{Task: a.Task.ID, Lease: a.Lease, Reason: reason, Missing: missing})
	at.soon(0)
}

// kill ends a task. One that is being published is done: the queue judges it.
func (s *attempts) kill(at *step, m message.Kill) {
	meant := func(a *attempt) bool { return a.Task.ID == m.Task && (m.Lease == 0 || a.Lease == m.Lease) }
	s.handBack(at, m.Reason, meant)
	for _, a := range s.which(meant) {
		if a.phase == running {
			a.killed = m.Reason
			at.act(KillPayload{Attempt: a.id})
		}
	}
}

// handBack gives those of a kind back that have not been started.
func (s *attempts) handBack(at *step, reason string, kind func(*attempt) bool) {
	for _, a := range s.which(kind) {
		if a.phase < running {
			s.drop(at, a)
			at.handBack(a.Assignment, reason)
		}
	}
}

func all(*attempt) bool { return true }
