package cache

import (
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// PlanEvent is an input of Planner.Step.
type PlanEvent interface{ planEvent() }

// PlanAction is an output of Planner.Step.
type PlanAction interface{ planAction() }

// Want asks for a file on behalf of a waiter. Each waiter gets one Ready or
// Failed per Want, unless it sends Cancelled.
type Want struct {
	File   task.File
	Waiter uint64 // unique per wish
	Cached bool   // it is in the pilot's own cache
	Remote bool   // other sites' storage elements may be read
}

// Cancelled withdraws a wish.
type Cancelled struct{ Waiter uint64 }

// Located brings who holds files; keys without entry are held by nobody.
type Located struct {
	Keys    []task.FileKey
	Holders map[task.FileKey][]Holder
	Err     error // nobody could be asked
}

const (
	// LocateTime is how long a Locate may take.
	LocateTime = 3 * time.Second
	// FailureGrace is how long the other inputs of a task are waited for after the first
	// that cannot be had, so that all that are lost are named at once.
	FailureGrace = time.Second
)

// HomeAnswered brings the home's verdict on an AskHome. After WaitFor another
// one follows.
type HomeAnswered struct {
	Ask     uint64
	Key     task.FileKey
	Verdict Verdict
	Holders []Holder
	Err     error // why Unanswered, if that is known
}

// Progress tells that a transfer moves.
type Progress struct{ Transfer uint64 }

// Fault is what was wrong with one source of a transfer.
type Fault uint8

// Faults of sources.
const (
	Unreachable Fault = iota // no connection, no answer, or it broke off
	Busy                     // it serves as many as it can
	Gone                     // it answers and does not have the file
	Corrupt                  // it sent wrong bytes
)

var faultNames = [...]string{"unreachable", "busy", "does not have it", "sent wrong bytes"}

func (f Fault) String() string {
	if int(f) < len(faultNames) {
		return faultNames[f]
	}
	return "unknown fault"
}

// SourceFault tells of a source that failed in a transfer, which may have
// succeeded with the others.
type SourceFault struct {
	Peer       task.PeerID // "" for the storage element
	Fault      Fault
	RetryAfter time.Duration // when Busy
	Others     []Holder      // when Busy: who else has it
	Err        error
}

// TransferDone ends a transfer. Arrived means that the file is in the cache.
type TransferDone struct {
	Transfer uint64
	Arrived  bool
	From     task.PeerID // the peer that gave most of it; "" for a storage element
	Faults   []SourceFault
	Local    error // the pilot's own fault: no room, disk full; ends the fetch
}

func (Want) planEvent()         {}
func (Cancelled) planEvent()    {}
func (Located) planEvent()      {}
func (HomeAnswered) planEvent() {}
func (Progress) planEvent()     {}
func (TransferDone) planEvent() {}
func (Tick) planEvent()         {}

// Locate asks the overlay who holds files; Located answers. It goes on looking where
// nobody is named but peers that are doubted.
type Locate struct {
	Keys    []task.FileKey
	Doubted []task.PeerID
}

// AskHome asks the file's home whether to read a storage element;
// HomeAnswered answers.
type AskHome struct {
	Ask   uint64
	Key   task.FileKey
	Tried []task.PeerID // holders that could not give it
}

// TransferFromPeers fetches a file, from the first peer or in parts from all;
// TransferDone answers.
type TransferFromPeers struct {
	Transfer uint64
	File     task.File
	Holders  []Holder // at least one
}

// TransferFromSE reads a replica from a storage element; TransferDone answers.
type TransferFromSE struct {
	Transfer uint64
	File     task.File
	Replica  task.Replica
}

// RenewGrant tells the home that the granted read moves.
type RenewGrant struct{ Key task.FileKey }

// FinishGrant tells the home how the granted read ended, or, GivenBack, that
// the answer is wanted no more.
type FinishGrant struct {
	Key task.FileKey
	End Ending
}

// Abandon ends whatever goes on for a file and forgets its parts: a transfer
// or question under way is still answered.
type Abandon struct{ Key task.FileKey }

// BadCopy tells that a storage element has no such file, or other bytes in its
// place. The fetch goes on with other sources.
type BadCopy struct {
	File    task.File
	Replica task.Replica
	Reason  string
}

// Ready tells a waiter that its file is in the cache and where it came from.
// Waiters that joined a fetch under way get that fetch's source.
type Ready struct {
	Waiter uint64
	Key    task.FileKey
	Source task.Source
	From   task.PeerID // when Source is a peer
}

// Failed tells a waiter that its file cannot be had.
type Failed struct {
	Waiter uint64
	Err    *FetchError
}

func (Locate) planAction()            {}
func (AskHome) planAction()           {}
func (TransferFromPeers) planAction() {}
func (TransferFromSE) planAction()    {}
func (RenewGrant) planAction()        {}
func (FinishGrant) planAction()       {}
func (Abandon) planAction()           {}
func (BadCopy) planAction()           {}
func (Ready) planAction()             {}
func (Failed) planAction()            {}
