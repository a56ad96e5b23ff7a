package factory

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Config says what a factory may do. Timings that are zero take the default.
type Config struct {
	Site    task.Site
	Shapes  []Shape
	Min     int // jobs, whatever the demand
	Max     int // jobs, pending and running
	Backlog int // most pending jobs
	Mark    string
	Timings Timings
}

// Timings of a factory.
type Timings struct {
	Poll     time.Duration // between two looks at the batch system; 15 s
	Ask      time.Duration // between two questions to the queue; 3 s
	Fresh    time.Duration // a listing that is older allows no submission; 60 s
	Settle   time.Duration // a job that no listing shows counts so long, batch systems being slow to show it; 60 s
	Start    time.Duration // a job that ends so soon without having worked has failed; 2 min
	Register time.Duration // a running job counts as supply so long before its pilot is seen; 5 min
	Surplus  time.Duration // pending jobs that nobody needs for so long are cancelled; 60 s
	Pause    time.Duration // the first pause after a failure; 30 s
	MaxPause time.Duration // and the longest; 30 min
}

func (t Timings) complete() Timings {
	for _, field := range []struct {
		value *time.Duration
		usual time.Duration
	}{
		{&t.Poll, 15 * time.Second},
		{&t.Ask, 3 * time.Second},
		{&t.Fresh, time.Minute},
		{&t.Settle, time.Minute},
		{&t.Start, 2 * time.Minute},
		{&t.Register, 5 * time.Minute},
		{&t.Surplus, time.Minute},
		{&t.Pause, 30 * time.Second},
		{&t.MaxPause, 30 * time.Minute},
	} {
		if *field.value == 0 {
			*field.value = field.usual
		}
	}
	return t
}

// Event is what a factory hears.
type Event interface{ event() }

type (
	// Demand is what the queue tells of the site.
	Demand struct {
		Classes   []Class
		Pilots    []Pilot // that are alive, or ended not long ago
		FreeSlots int     // of live pilots
		Nodes     []Node  // that are set back for failing payloads
		Draining  bool    // the site gets no work
	}
	// Listing is what the batch system has of this user's jobs. Asked is when the
	// question went out: jobs that were submitted later may be missing.
	Listing struct {
		Asked  time.Time
		Jobs   []Listed
		Traces map[string]Trace // by name, of jobs that may have ended unseen
	}
	// ListingFailed tells that the batch system did not answer.
	ListingFailed struct{ Err string }
	// Submitted tells that the batch system took a job.
	Submitted struct{ Name, ID string }
	// SubmitFailed tells that it did not. When that is not Certain, the job may
	// exist all the same, and the next listing tells.
	SubmitFailed struct {
		Name, Err string
		Certain   bool
	}
	// Wake lets time pass.
	Wake struct{}
)

func (Demand) event()        {}
func (Listing) event()       {}
func (ListingFailed) event() {}
func (Submitted) event()     {}
func (SubmitFailed) event()  {}
func (Wake) event()          {}

// Class is a number of tasks with equal needs which wait for the site.
type Class struct {
	task.Class
	Tasks    int
	Walltime time.Duration
	Unfit    []string // shapes at which the requirement fails
	Live     bool     // a live pilot of the site can run it
}

// Pilot is a pilot of the site as the queue knows it.
type Pilot struct {
	ID    task.PilotID
	Job   string // name of its job, "" for pilots of others
	Node  string
	Alive bool
	Tasks uint64 // that it has done
	Error string // why it ended, or its last error
}

// Node is a node that fails payloads.
type Node struct {
	Name string
	Left time.Duration // of its pause
}

// State is how far a job has come in the batch system.
type State string

// States of a job.
const (
	Planned State = "planned" // its name is kept, it may not exist yet
	Pending State = "pending"
	Running State = "running"
	Ended   State = "ended"
)

// Listed is a job as the batch system lists it.
type Listed struct {
	ID, Name, Node string
	State          State
	Why            string // it is pending, if the batch system says so
}

// Trace is what a job's log tells: jobs that die at once are over before a batch
// system has listed them as running.
type Trace struct {
	Node string
	Last string // line of its log
}

// Action is what a factory wants done.
type Action interface{ action() }

type (
	// Submit wants a job submitted under a name that was kept before (Keep comes
	// first in the same answer). Exclude are nodes that it should not go to.
	Submit struct {
		Name    string
		Shape   *Shape
		Exclude []string
	}
	// Cancel wants jobs cancelled.
	Cancel struct{ IDs []string }
	// Keep wants everything kept durably before any action that follows.
	Keep struct{ Kept Kept }
	// Note is one line for the log: what was decided and why.
	Note struct {
		Warn      bool
		What, Why string
	}
)

func (Submit) action() {}
func (Cancel) action() {}
func (Keep) action()   {}
func (Note) action()   {}
