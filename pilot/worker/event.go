package worker

import (
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// BroadcastID names a broadcast of the overlay.
type BroadcastID struct {
	Root task.PeerID
	N    uint64
}

// FromMaster is a message to a worker.
type FromMaster struct {
	From    task.PeerID
	Message message.Message
}

// ListBroadcast is a TaskList that reached a worker by broadcast.
type ListBroadcast struct {
	ID   BroadcastID
	From task.PeerID
	List message.TaskList
}

// StagedIn tells that all inputs of an attempt are in the cache and pinned.
type StagedIn struct {
	Attempt task.AttemptID
	Reads   []task.Read
}

// StageFailed tells that an input cannot be read.
type StageFailed struct {
	Attempt task.AttemptID
	Failure task.FailureKind
	Reason  string
	Lost    []task.File // inputs that no pilot gave and no storage element has
	// NoRoom tells that the inputs do not fit beside what is pinned.
	NoRoom bool
}

// PayloadStarted tells that a payload's process was started.
type PayloadStarted struct {
	Attempt task.AttemptID
	At      time.Time
	Process int // on the node
}

// PayloadEnded tells how a payload ended; Outputs are not in it yet.
type PayloadEnded struct {
	Attempt task.AttemptID
	Outcome task.Outcome
}

// Published tells that outputs are in the cache and announced, or why not.
type Published struct {
	Attempt task.AttemptID
	Outcome task.Outcome
	Outputs []task.Produced
	Failure string
}

// Uploaded tells that outputs have reached a storage element.
type Uploaded struct{ Stored []task.Stored }

// UploadFailed tells that an output could not be uploaded; that is tried again.
type UploadFailed struct{ Output task.OutputID }

// UploadPause is how long after so many failures an upload is tried again, at most.
func UploadPause(tries int) time.Duration {
	return min(time.Second<<min(tries, 10), time.Minute)
}

// NotUploaded tells of an output that is uploaded from here no more, as the cache does not
// keep it. What an earlier try has stored without an answer may still be told.
type NotUploaded struct{ Output task.OutputID }

// Kept answers a Keep: the file is in the cache and stays, or is on the storage
// element at a URL, or why not.
type Kept struct {
	File    task.File
	URL     string
	Failure string
	Away    bool // no pilot gave it, and the storage element did not answer
}

// CopiedIn answers a CopyIn: the file is in the cache, or why not.
type CopiedIn struct {
	File task.File
	// Copied tells that it was not there before; Bytes is its size then.
	Copied  bool
	Bytes   task.Bytes
	Failure string
}

// Recovered tells of outputs that an earlier pilot has left in the cache and
// that no storage element has, as far as it knew.
type Recovered struct{ Outputs []message.Output }

// CacheChanged tells that files came into the cache or left it.
type CacheChanged struct {
	Keys  []task.FileKey // every key that a list may know them by
	Cache message.CacheReport
}

// DeliveredToQueue brings the queue's answer to a DeliverToQueue.
type DeliveredToQueue struct {
	Acks   []task.Ack
	Stored []task.OutputID
}

// BadCopy tells that a storage element has no such copy, or other bytes in its
// place. It comes before the failure that it leads to.
type BadCopy struct{ Copy task.LostFile }

// SERead sums reads from storage elements since the last such event.
type SERead struct{ Reads []task.SERead }

// PilotChanged brings what changes about a node.
type PilotChanged struct {
	matcher.Conditions
	Lifetime time.Duration
	// Stop says why the node takes no new work; "" when it can.
	Stop string
	// Checking tells that it is not known yet whether it can.
	Checking bool
}

// SiteChanged brings the settings of the site, when it is known and whenever
// they change.
type SiteChanged struct{ Settings task.SiteSettings }

// Drain ends a pilot: what runs finishes, nothing more is taken. Within is how
// long that may take; 0 is as long as it wants.
type Drain struct {
	Reason string
	Within time.Duration
}

// AnswerBroadcast replies to a TaskList.
type AnswerBroadcast struct {
	ID     BroadcastID
	Answer message.Answer
}

// StageIn fetches and pins the inputs of an attempt.
type StageIn struct {
	Attempt task.AttemptID
	Files   []task.File
}

// StartPayload runs a staged attempt.
type StartPayload struct {
	Attempt    task.AttemptID
	Assignment message.Assignment
}

// KillPayload ends a running payload.
type KillPayload struct{ Attempt task.AttemptID }

// Publish takes the outputs of a payload into the cache and announces them.
type Publish struct {
	Attempt    task.AttemptID
	Assignment message.Assignment
	Outcome    task.Outcome
}

// Upload copies an output to the site's storage element in the background,
// again and again until it is Uploaded, not in the cache, or let go.
type Upload struct{ Output message.Output }

// LetGo ends the keeping of an output: the cache may evict it.
type LetGo struct{ Output message.Output }

// Keep looks for a file at its place on the storage element, or else takes it into
// the cache, from another pilot if it is not there, and has it stay. It wants a
// Kept: whoever made it goes, or is gone.
type Keep struct{ File task.File }

// CopyIn takes a file into the cache before a task asks for it, from another
// pilot if one has it, and wants a CopiedIn. It may be evicted as soon as it is
// there.
type CopyIn struct{ File task.File }

// DropCopy takes a file out of the cache, unless something needs it.
type DropCopy struct{ File task.File }

// Discard lets go of an attempt's pins and work folder.
type Discard struct{ Attempt task.AttemptID }

// DropLogs lets go of the logs of an attempt that has ended: nobody waits for
// its outcome any more.
type DropLogs struct{ Attempt task.AttemptID }

// DeliverToQueue hands outcomes to the queue without a master.
type DeliverToQueue struct {
	Outcomes []task.Outcome
	Stored   []task.Stored
}

// Draining tells why the worker has begun to drain, as its master has told it to.
type Draining struct{ Reason string }

// Drained tells that a draining worker has nothing left.
type Drained struct{}
