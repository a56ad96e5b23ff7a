package worker

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

func attemptOf(cores int, bound task.Bound) *attempt {
	return &attempt{Assignment: message.Assignment{Task: task.Task{Resources: task.Resources{Cores: cores}, Bound: bound}}}
}

func TestSlotsAreHeldWithTheirResources(t *testing.T) {
	s := newSlots(matcher.Pilot{Slots: 3, Resources: task.Resources{Cores: 4}})
	wide, wider, narrow := attemptOf(3, task.CPUBound), attemptOf(2, task.CPUBound), attemptOf(1, task.IOBound)
	for _, a := range []*attempt{wide, wide, wider, narrow} {
		s.hold(a)
	}
	if !wide.holding || wider.holding || !narrow.holding || s.free != 1 {
		t.Errorf("holding %t, %t, %t with %d slots free", wide.holding, wider.holding, narrow.holding, s.free)
	}
	if live, want := s.live(), (matcher.Live{CPUBound: 1, IOBound: 1}); live != want {
		t.Errorf("ranks see %+v, want %+v", live, want)
	}
	s.release(wide)
	s.release(wide)
	if s.hold(wider); !wider.holding || s.free != 1 || s.live().FreeCores != 1 {
		t.Errorf("after the wide one: holding %t, %d slots free, %+v", wider.holding, s.free, s.live())
	}
}

// The hand-outs that a new master hears of are without what is over, and without
// files that nobody reads any more.
func TestHandOutCopiesFollowTheMaster(t *testing.T) {
	leased := func(name string, reads task.LFN) task.LeasedTask {
		return task.LeasedTask{Task: task.Task{ID: task.NewID("w-aaaaaaaaaa", name), Inputs: []task.Input{{LFN: reads}}}}
	}
	begin := time.Unix(1e9, 0)
	k := handOutCopies{}
	k.keep(begin, message.KeepCopy{Whole: true, Leases: []task.Lease{
		{ID: 2, Tasks: []task.LeasedTask{leased("c", "z")}},
		{ID: 1, Tasks: []task.LeasedTask{leased("a", "x"), leased("b", "y")}},
	}, Files: []task.File{{LFN: "z"}, {LFN: "x"}}})
	k.keep(begin.Add(time.Second), message.KeepCopy{Gone: []message.LeasedID{{Lease: 1, Task: leased("a", "").Task.ID}}})
	var s message.State
	k.tell(begin.Add(3*time.Second), &s)
	if len(s.Copies) != 2 || s.Copies[0].ID != 1 || len(s.Copies[0].Tasks) != 1 || s.CopiesAge != 2*time.Second || len(s.CopyFiles) != 2 || s.CopyFiles[0].LFN != "x" {
		t.Errorf("a new master hears %+v of %s ago with %+v", s.Copies, s.CopiesAge, s.CopyFiles)
	}
	k.keep(begin, message.KeepCopy{Drop: []task.LeaseID{2}})
	s = message.State{}
	if k.tell(begin, &s); len(s.Copies) != 1 || len(s.CopyFiles) != 1 {
		t.Errorf("after the end of a hand-out: %+v with %+v", s.Copies, s.CopyFiles)
	}
	k.keep(begin, message.KeepCopy{Drop: []task.LeaseID{1}})
	s = message.State{}
	if k.tell(begin, &s); len(s.Copies)+len(s.CopyFiles) > 0 {
		t.Errorf("after the last: %+v with %+v", s.Copies, s.CopyFiles)
	}
}
