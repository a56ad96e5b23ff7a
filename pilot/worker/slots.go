package worker

import (
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// slots are what payloads run in, with the resources that they share.
type slots struct {
	total     int
	free      int
	resources task.Resources     // that no attempt holds
	bound     map[task.Bound]int // attempts that hold a slot, by what limits them
	freed     []time.Time        // when each free slot's last payload ended
}

func newSlots(self matcher.Pilot) slots {
	return slots{total: self.Slots, free: self.Slots, resources: self.Resources, bound: make(map[task.Bound]int)}
}

// hold gives an attempt a slot and its resources if they are free.
func (s *slots) hold(a *attempt) {
	if a.holding || s.free == 0 || !s.resources.Fits(a.Task.Resources) {
		return
	}
	a.holding = true
	s.free--
	s.resources = s.resources.Sub(a.Task.Resources)
	s.bound[a.Task.Bound]++
}

func (s *slots) release(a *attempt) {
	if !a.holding {
		return
	}
	a.holding = false
	s.free++
	s.resources = s.resources.Add(a.Task.Resources)
	s.bound[a.Task.Bound]--
}

// ended notes since when a slot is free.
func (s *slots) ended(at time.Time) {
	if len(s.freed) < s.total {
		s.freed = append(s.freed, at)
	}
}

// live is what ranks see of what runs here.
func (s *slots) live() matcher.Live {
	return matcher.Live{FreeCores: s.resources.Cores, CPUBound: s.bound[task.CPUBound], IOBound: s.bound[task.IOBound]}
}
