package agent

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Event is what a pilot tells Config.Events of: one of the types below.
type Event interface{ event() }

// Joined tells that the pilot is a member of its site and takes work, once.
type Joined struct {
	Pilot task.PilotID
	Site  task.Site
}

// TookOffice tells that the pilot took the mastership of its site.
type TookOffice struct{ Term task.Term }

// RoundDone tells of the end of a broadcast of the task list that the pilot, as
// master, began.
type RoundDone struct {
	Took              time.Duration
	Answered, Members int // pilots
	Peers             int // that one pilot sent it to, at most
}

func (Joined) event()     {}
func (TookOffice) event() {}
func (RoundDone) event()  {}
