package journal

import (
	"encoding/gob"
	"fmt"
	"reflect"
	"time"

	"github.com/pilotage-grid/pilotage/pilot"
	"github.com/pilotage-grid/pilotage/task"
)

// Format is raised when journals of earlier versions cannot be read any more.
const Format = 1

// Header begins a journal.
type Header struct {
	Format  int
	Version string // of the program
	Site    task.Site
	Pilot   task.PilotID // whose master's core was recorded
	Config  pilot.Config
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
	Event    pilot.Event // nil for those without content
	Bare     string      // name of an event without content, which gob does not carry
	Assigned []Assigned
}

// bare are the events without content by name.
var bare = map[string]pilot.Event{}

func init() { //nolint:gochecknoinits // gob wants to know the types that stand behind an interface
	for _, event := range []pilot.Event{
		pilot.TookOffice{}, pilot.OwnCache{}, pilot.PilotUp{}, pilot.PilotDown{}, pilot.FromPilot{},
		pilot.BroadcastDone{}, pilot.SyncAnswered{},
	} {
		gob.Register(event)
	}
	for _, message := range []pilot.Message{
		pilot.TaskList{}, pilot.Answer{}, pilot.State{}, pilot.Report{}, pilot.Snapshot{}, pilot.Assign{}, pilot.Retract{},
		pilot.Kill{}, pilot.Acks{}, pilot.Want{}, pilot.KeepCopy{}, pilot.StoreOrder{}, pilot.Replicate{}, pilot.DrainOrder{},
	} {
		gob.Register(message)
	}
	for _, event := range []pilot.Event{pilot.Tick{}, pilot.LeftOffice{}, pilot.StandDown{}} {
		bare[nameOf(event)] = event
	}
}

func nameOf(event pilot.Event) string { return reflect.TypeOf(event).Name() }

// recordOf prepares an event for gob.
func recordOf(at time.Time, event pilot.Event) record {
	if name := nameOf(event); bare[name] != nil {
		return record{At: at, Bare: name}
	}
	return record{At: at, Event: event}
}

// event is what recordOf was given.
func (r record) event() (pilot.Event, error) {
	if r.Event != nil {
		return r.Event, nil
	}
	if event := bare[r.Bare]; event != nil {
		return event, nil
	}
	return nil, fmt.Errorf("the journal has an event %q, which this version does not know", r.Bare)
}

// assignedBy lists the assignments among a core's actions, in order.
func assignedBy(actions []pilot.Action) []Assigned {
	var out []Assigned
	for _, action := range actions {
		told, is := action.(pilot.Tell)
		if !is {
			continue
		}
		order, is := told.Message.(pilot.Assign)
		if !is {
			continue
		}
		for _, a := range order.Tasks {
			out = append(out, Assigned{Task: a.Task.ID, Lease: a.Lease, Peer: told.To, Prefill: a.Prefill})
		}
	}
	return out
}
