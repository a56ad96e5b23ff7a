package journal

import (
	"encoding/gob"
	"fmt"
	"reflect"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// Format is raised when journals of earlier versions cannot be read any more.
const Format = 2

// Header begins a journal.
type Header struct {
	Format  int
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
	Event    message.Event // nil for those without content
	Bare     string        // name of an event without content, which gob does not carry
	Assigned []Assigned
}

// bare are the events without content by name.
var bare = map[string]message.Event{}

func init() { //nolint:gochecknoinits // gob wants to know the types that stand behind an interface
	for _, event := range []message.Event{
		master.TookOffice{}, master.OwnCache{}, master.PilotUp{}, master.PilotDown{}, master.FromPilot{},
		master.BroadcastDone{}, master.SyncAnswered{},
	} {
		gob.Register(event)
	}
	for _, said := range []message.Message{
		message.TaskList{}, message.Answer{}, message.State{}, message.Report{}, message.Snapshot{}, message.Assign{}, message.Retract{},
		message.Kill{}, message.Acks{}, message.Want{}, message.KeepCopy{}, message.StoreOrder{}, message.Replicate{}, message.DrainOrder{},
	} {
		gob.Register(said)
	}
	for _, event := range []message.Event{message.Tick{}, master.LeftOffice{}, master.StandDown{}} {
		bare[nameOf(event)] = event
	}
}

func nameOf(event message.Event) string { return reflect.TypeOf(event).Name() }

// recordOf prepares an event for gob.
func recordOf(at time.Time, event message.Event) record {
	if name := nameOf(event); bare[name] != nil {
		return record{At: at, Bare: name}
	}
	return record{At: at, Event: event}
}

// event is what recordOf was given.
func (r record) event() (message.Event, error) {
	if r.Event != nil {
		return r.Event, nil
	}
	if event := bare[r.Bare]; event != nil {
		return event, nil
	}
	return nil, fmt.Errorf("the journal has an event %q, which this version does not know", r.Bare)
}

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
