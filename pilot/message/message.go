package message

import (
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// Message is what master and workers say to each other. Messages from one
// pilot to another arrive in order or not at all.
type Message interface{ message() }

// TaskList is broadcast by the master (004, section III-B: TaskList): the
// changes of the list, and questions to everybody.
type TaskList struct {
	Delta matcher.ListDelta
	// Census asks for each pilot's whole state, Copies also for the hand-outs
	// that it keeps for a master.
	Census, Copies bool
	// Ask asks who holds files.
	Ask []task.FileKey
}

// Answer is one pilot's reply to a TaskList.
type Answer struct {
	Pilot  task.PilotID
	Peer   task.PeerID
	Update *matcher.RowUpdate // row of the list, when the delta fitted
	State  *State             // for a census
	Have   []task.FileKey
}

// Status is what a worker tells its master each time it speaks of itself.
type Status struct {
	// Number rises with every State and Report of the worker: answers to a
	// census may be overtaken.
	Number uint64
	// Seen is the serial number of the last Assign or Want of the term that
	// the worker has taken: what was assigned later may not be in hand yet.
	Seen uint64
	// Draining tells that no new work is taken: for good, or, where Stays says so, for a
	// while.
	Draining bool
	// Stopped says why no new work is taken; "" while it is, or while the
	// pilot has not found out yet whether it can.
	Stopped  string
	Cache    CacheReport
	Outcomes []task.Outcome // not acknowledged by the queue
	Seal     *task.Seal     // of the outcomes; the edge of a pilot makes it
	Stored   []task.Stored  // not acknowledged by the queue
	// Gone is what was to be kept for lack of another copy, and has left the
	// cache all the same, as damaged files do.
	Gone []task.File
	// Stays tells that the pilot does not leave, also while it takes no new work.
	Stays bool
}

// State is all that a master must know of a worker.
type State struct {
	Status
	Pilot  matcher.Pilot
	Peer   task.PeerID
	List   matcher.ListVersion // of the task list at hand
	InHand []InHand
	// Copies are hand-outs kept for a master, CopyFiles what tasks of them
	// have made since, CopiesAge how long ago the master last spoke of them.
	Copies    []task.Lease
	CopyFiles []task.File
	CopiesAge time.Duration
}

// InHand is a task that a worker has.
type InHand struct {
	Attempt task.AttemptID
	Number  int
	Started bool // its payload was started
	Ended   bool // its payload has ended and holds no slot; the outcome follows
	Prefill bool // waits for a slot
	Need    task.Resources
}

// CacheReport is what a worker says of its cache.
type CacheReport struct {
	Capacity  task.Bytes
	Used      task.Bytes
	Evictions uint64
	Damaged   uint64 // files that had rotted
}

// Report brings the news of a worker since its last report to the master.
type Report struct {
	Status
	Starts []task.Start
	// Ended lists attempts whose payload has ended well: their slots are free,
	// their outcomes follow when the outputs are in the cache.
	Ended    []task.AttemptID
	Returned []Handback
	Row      *matcher.Row
	Updates  []matcher.RowUpdate
	SEReads  []task.SERead
	// WantList asks for a snapshot of the task list.
	WantList bool
	// Retracts answers those that were carried out or came too late.
	Retracts []RetractAnswer
	// Leaves are sole copies that want another keeper: those of a leaving pilot, and those
	// that one which stays cannot store.
	Leaves []task.File
	// Kept answers StoreOrders.
	Kept []KeptAnswer
	// BadCopies are copies that their storage elements have no more, or with
	// other bytes.
	BadCopies []task.LostFile
	// Replicated answers orders to replicate.
	Replicated []ReplicatedAnswer
}

// ReplicatedAnswer tells that a file is in the cache, or why not.
type ReplicatedAnswer struct {
	Key task.FileKey // by which the task list knows it
	// Copied tells that it was not there before; Bytes is its size then.
	Copied  bool
	Bytes   task.Bytes
	Failure string
}

// KeptAnswer tells that a pilot keeps a file, or that the storage element has it,
// or why not.
type KeptAnswer struct {
	Output  task.OutputID
	Failure string
	Away    bool // no pilot gave it, and the storage element did not answer
}

// Handback gives an assignment back unstarted.
type Handback struct {
	Task    task.ID
	Lease   task.LeaseID
	Reason  string
	Missing []task.File // inputs that nobody had, when that was the reason
}

// RetractAnswer answers a Retract.
type RetractAnswer struct {
	Task      task.ID
	Lease     task.LeaseID
	Retracted bool // false: it had been started
}

// Snapshot is a whole task list, for a pilot that lacks the base of a delta.
type Snapshot struct {
	List matcher.ListSnapshot
}

// Assign gives tasks to a worker. Serial numbers rise within the term.
type Assign struct {
	Term   task.Term
	Serial uint64
	Tasks  []Assignment
}

// Assignment is one task for one worker.
type Assignment struct {
	Task       task.Task
	Lease      task.LeaseID
	Generation uint32
	Number     int
	Files      []task.File // one per input, in order
	Prefill    bool
	// Waited is how long it had been ready when it was assigned.
	Waited time.Duration
}

// Retract asks for a prefilled task back.
type Retract struct {
	Term  task.Term
	Task  task.ID
	Lease task.LeaseID
}

// Kill ends a task, whatever its progress.
type Kill struct {
	Term   task.Term
	Task   task.ID
	Lease  task.LeaseID // 0: every lease
	Reason string
}

// Acks echo the queue's acceptance of outcomes and stored files, and relieve
// a leaving pilot of what others have taken over.
type Acks struct {
	Acks     []task.Ack
	Stored   []task.OutputID
	Relieved []task.OutputID
}

// Want asks a worker for its whole state, with the hand-outs that it keeps, or
// for its whole row.
type Want struct {
	Term   task.Term
	Serial uint64 // in one line with those of Assign
	State  bool
	Copies bool
	Row    bool
}

// KeepCopy asks a pilot to hold the hand-outs for the master. An empty one
// says that they are as they were.
type KeepCopy struct {
	Term task.Term
	// Whole replaces everything that is kept.
	Whole  bool
	Leases []task.Lease
	Drop   []task.LeaseID // that are over
	Gone   []LeasedID     // tasks that are over, or back at the queue
	// Files are outputs that the queue has accepted and that tasks of the
	// hand-outs read.
	Files []task.File
}

// LeasedID names a task of a hand-out.
type LeasedID struct {
	Lease task.LeaseID
	Task  task.ID
}

// StoreOrder asks a pilot to see to it that the site's storage element gets a file:
// it looks whether that is there already, since its maker may have gone without a
// word, or else keeps it, fetched from another pilot if need be, and copies it.
type StoreOrder struct{ File task.File }

// Replicate has a pilot copy files into its cache before tasks ask for them
// (002, 003), and drop others, which it may do without.
type Replicate struct {
	Term  task.Term
	Files []task.File
	Drops []task.File
}

// DrainOrder asks a worker to finish what runs and leave.
type DrainOrder struct{ Reason string }

func (TaskList) message()   {}
func (Answer) message()     {}
func (State) message()      {}
func (Report) message()     {}
func (Snapshot) message()   {}
func (Assign) message()     {}
func (Retract) message()    {}
func (Kill) message()       {}
func (Acks) message()       {}
func (Want) message()       {}
func (KeepCopy) message()   {}
func (StoreOrder) message() {}
func (Replicate) message()  {}
func (DrainOrder) message() {}
