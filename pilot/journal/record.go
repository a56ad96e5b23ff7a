package journal

import (
	"reflect"
	"time"

	"github.com/pilotage-grid/pilotage/internal/codec"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/wire"
	"github.com/pilotage-grid/pilotage/task"
)

// Format is raised when journals of earlier versions cannot be read any more.
const Format = 5

// firstLine begins a journal, with the format and the version that wrote it.
const firstLine = "pilotage journal, format %d of pilotage %q\n"

// Header follows on the first line.
type Header struct {
	Version string // of the program
	Site    task.Site
	Pilot   task.PilotID // whose master's core was recorded
	Config  master.Config
}

// Assigned is one task given to one pilot.
type Assigned struct {
	Task    task.ID
	Lease   task.LeaseID
	Peer    task.PeerID
	Prefill bool // it waits there for a slot
}

// record is what the master was told, or what it decided on that.
type record struct {
	At       time.Time
	Event    message.Event
	Assigned []Assigned
}

// records reads and writes what a journal holds. The numbers of events are their
// places: new ones go to the end.
var records = wire.New([]reflect.Type{reflect.TypeFor[Header](), reflect.TypeFor[record]()}, codec.Union[message.Event](
	message.Tick{}, master.TookOffice{}, master.LeftOffice{}, master.StandDown{}, master.OwnCache{}, master.PilotUp{}, master.PilotDown{},
	master.FromPilot{}, master.BroadcastDone{}, master.SyncAnswered{},
))

// assignedBy lists the assignments among a core's actions, in order.
func assignedBy(actions []message.Action) []Assigned {
	var out []Assigned
	for _, action := range actions {
		told, is := action.(message.Tell)
		if !is {
			continue
		}
		order, is := told.Message.(message.Assign)
		if !is {
			continue
		}
		for _, a := range order.Tasks {
			out = append(out, Assigned{Task: a.Task.ID, Lease: a.Lease, Peer: told.To, Prefill: a.Prefill})
		}
	}
	return out
}
