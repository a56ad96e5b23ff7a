package manysites

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// talk is how a master's calls to the queue stand: as package pilot has it, one
// call with content at a time, and an empty one that the queue parks.
type talk struct {
	starts    []task.Start
	outcomes  []task.Outcome
	returns   []task.Returned
	confirmed []task.Revoked
	asked     map[task.ID]bool // wanted back, and answered

	due         time.Duration // content is to be sent; 0: there is none
	poll        time.Duration // an empty call is due
	calls       uint64
	flight      uint64 // number of the call with content; 0: none
	parked      uint64
	carried     [4]int // of starts, outcomes, returns and confirmed
	lastWaiting int
}

// soon has content sent after a delay at most.
func (s *site) soon(delay time.Duration) {
	due := max(s.timeline.Now()+delay, 1)
	if s.talk.due == 0 || due < s.talk.due {
		s.talk.due = due
	}
}

// outcomeSoon gathers outcomes.
func (s *site) outcomeSoon() {
	s.soon(s.config.Pilot.OutcomeDelay(len(s.talk.outcomes), s.unassigned(), s.runs))
}

// nextTalk is when a call is due; 0 is never.
func (s *site) nextTalk() time.Duration {
	k := &s.talk
	if k.flight != 0 {
		return 0
	}
	next := k.due
	if k.parked == 0 && (next == 0 || k.poll < next) {
		next = max(k.poll, 1)
	}
	return next
}

func (s *site) passTalk() {
	k, now := &s.talk, s.timeline.Now()
	switch {
	case k.flight != 0:
	case k.due > 0 && now >= k.due:
		s.call(true)
	case k.parked == 0 && now >= k.poll:
		s.call(len(k.starts)+len(k.outcomes)+len(k.returns)+len(k.confirmed) > 0)
	}
}

// mostOutcomes is what one call takes.
const mostOutcomes = 1000

func (s *site) call(content bool) {
	k := &s.talk
	k.calls++
	c := &call{site: s, number: k.calls, sync: task.Sync{
		Site: s.name, Term: s.term, Pilot: s.pilots[0].id, Leases: slices.Sorted(maps.Keys(s.leases)),
		Capacity: task.Capacity{
			Pilots: len(s.pilots), Slots: len(s.pilots), FreeSlots: len(s.free), Waiting: s.unassigned(), Running: s.runs, Assigned: s.given - s.runs,
		},
	}}
	k.lastWaiting = c.sync.Capacity.Waiting
	if content {
		k.due, k.flight = 0, k.calls
		outcomes := k.outcomes[:min(len(k.outcomes), mostOutcomes)]
		c.sync.Starts, c.sync.Outcomes, c.sync.Returns, c.sync.Confirmed = k.starts, outcomes, k.returns, k.confirmed
		k.carried = [4]int{len(k.starts), len(outcomes), len(k.returns), len(k.confirmed)}
	} else {
		c.sync.Hold = s.config.Pilot.SyncEvery
		k.parked = k.calls
	}
	s.queue.call(c)
}

// answered takes the queue's answer.
func (s *site) answered(number uint64, reply task.SyncReply) {
	k := &s.talk
	content := number == k.flight
	switch number {
	case k.flight:
		k.flight = 0
		k.starts = slices.Clone(k.starts[k.carried[0]:])
		k.outcomes = slices.Clone(k.outcomes[k.carried[1]:])
		k.returns = slices.Clone(k.returns[k.carried[2]:])
		k.confirmed = slices.Clone(k.confirmed[k.carried[3]:])
	case k.parked:
		k.parked = 0
	}
	if k.parked == 0 {
		k.poll = s.timeline.Now()
		if content {
			k.poll += s.config.Pilot.ParkPause(s.runs)
		}
	}
	for _, ack := range reply.Acks {
		s.close(ack.Attempt.Lease)
	}
	for _, lease := range reply.Leases {
		if _, known := s.leases[lease.ID]; known {
			continue // the call had left before the first answer with it was here
		}
		s.leases[lease.ID] = len(lease.Tasks)
		for i := range lease.Tasks {
			t := &lease.Tasks[i]
			s.held.add(leased{t.Task.ID, lease.ID, t.Generation, t.Number})
		}
	}
	s.revoke(reply.Revoked)
	if len(k.outcomes) > 0 && k.due == 0 {
		s.soon(s.config.Pilot.SyncDelay)
	}
	s.pass()
}

// close counts a task of a lease as over.
func (s *site) close(lease task.LeaseID) {
	if s.leases[lease]--; s.leases[lease] <= 0 {
		delete(s.leases, lease)
	}
}

// revoke gives back what another site is to have, unless it was started. A wish
// is repeated until the queue has heard the answer.
func (s *site) revoke(revoked []task.Revoked) {
	if len(revoked) == 0 {
		s.talk.asked = nil
		return
	}
	if s.talk.asked == nil {
		s.talk.asked = make(map[task.ID]bool)
	}
	wanted := make(map[task.ID]bool, len(revoked))
	for _, r := range revoked {
		if !s.talk.asked[r.Task] {
			s.talk.asked[r.Task], wanted[r.Task] = true, true
			s.talk.confirmed = append(s.talk.confirmed, r)
		}
	}
	if len(wanted) == 0 {
		return
	}
	isWanted := func(t leased) bool { return wanted[t.id] }
	dropped := slices.Concat(s.held.drop(isWanted), s.listed.drop(isWanted), s.ready.drop(isWanted))
	for i := range s.pilots {
		p := &s.pilots[i]
		p.next = slices.DeleteFunc(p.next, func(t leased) bool {
			if !isWanted(t) {
				return false
			}
			dropped = append(dropped, t)
			s.given--
			s.wants = append(s.wants, int32(i))
			return true
		})
	}
	for _, t := range dropped {
		s.talk.returns = append(s.talk.returns, task.Returned{Task: t.id, Generation: t.generation, Lease: t.lease, Reason: "recalled"})
		s.close(t.lease)
	}
	s.soon(s.config.Pilot.SyncDelay)
}
