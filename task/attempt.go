package task

import (
	"cmp"
	"time"
)

// FailureKind says what a failed attempt means for the task.
type FailureKind uint8

// Kinds of failure.
const (
	NoFailure     FailureKind = iota
	PayloadFailed             // the payload ended badly: exit code, signal, missing output, over its limits
	InputMissing              // an input could not be read from any source
	PilotFailed               // the pilot or its node failed, not the payload
	PilotLost                 // the pilot vanished while running it
	KilledByUser              // cancelled
	StorageFailed             // a storage element that should have an input did not answer
)

var failureNames = [...]string{"none", "payload failed", "input missing", "pilot failed", "pilot lost", "killed by user", "storage failed"}

func (k FailureKind) String() string {
	if int(k) < len(failureNames) {
		return failureNames[k]
	}
	return "unknown failure"
}

// Source says where the bytes of an input were when the task was assigned.
type Source uint8

// Sources of a read, cheapest first.
const (
	SourceLocal  Source = iota // own cache
	SourcePeer                 // a peer's cache
	SourceSE                   // the site's storage element
	SourceRemote               // another site's storage element
)

var sourceNames = [...]string{"local", "peer", "se", "remote"}

func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "unknown source"
}

// Sources lists all sources.
func Sources() []Source { return []Source{SourceLocal, SourcePeer, SourceSE, SourceRemote} }

// Read is one input read by one attempt, counted once however it came.
type Read struct {
	LFN          LFN
	Size         Bytes
	Digest       Digest // as read
	Source       Source
	Intermediate bool      // made by a task, not external
	Producer     AttemptID // the attempt that made it; zero for external files
}

// Produced is one output of a successful attempt.
type Produced struct {
	LFN    LFN
	Size   Bytes
	Digest Digest
	Exec   bool
	// URL of the copy on the site's storage element, "" until uploaded.
	URL string
}

// Usage is what a payload consumed.
type Usage struct {
	UserCPU   time.Duration
	SystemCPU time.Duration
	MaxMemory Bytes // largest sum over the payload's descendants
}

// Outcome is the fact of how an attempt ended.
type Outcome struct {
	Attempt  AttemptID
	Number   int // display number: a1, a2, ...
	Site     Site
	OK       bool
	Failure  FailureKind
	Reason   string // for people; empty on success
	ExitCode int    // -1 when ended by a signal or never started
	Signal   string // e.g. "SIGKILL"; empty when none
	Usage    Usage
	Outputs  []Produced // all declared outputs when OK
	Reads    []Read
	Stdout   []byte // at most LogTail bytes: the end of the stream
	Stderr   []byte
	// Durations on the pilot's own monotonic clock.
	StageIn time.Duration
	Run     time.Duration
	// Times on the pilot's wall clock, for people only.
	Started time.Time
	Ended   time.Time
	// Delay is the inter-task delay before this attempt on its slot: exit of
	// the payload before to exec of this one; negative when not counted.
	Delay time.Duration
	// Process is the number on the node of the process from which all of the payload's
	// descend: its own, or of its PID namespace's first process; 0 when it never started.
	Process int
}

// OutcomeDigest is SHA-256 of an outcome as the queue is sent it.
type OutcomeDigest [32]byte

// Seal is a pilot's signature of outcomes of its attempts: whoever brings them to the
// queue can change none and add none.
type Seal struct {
	Certificate []byte // the pilot's membership, in DER form
	Digests     []OutcomeDigest
	Signature   []byte
}

// LogTail is how much of stdout and of stderr travels with an outcome.
const LogTail = 64 << 10

// FileState of a produced file, as the pilots report it.
type FileState uint8

// States of a file.
const (
	FileMissing   FileState = iota // nobody has it
	FileAnnounced                  // in caches of a site
	FileStored                     // on a storage element
)

// OutputID names what an attempt has made.
type OutputID struct {
	Attempt AttemptID
	LFN     LFN
}

// Compare orders attempts by task, then by generation and so on.
func (a AttemptID) Compare(other AttemptID) int {
	return cmp.Or(cmp.Compare(a.Task, other.Task), cmp.Compare(a.Generation, other.Generation), cmp.Compare(a.Lease, other.Lease),
		cmp.Compare(a.Pilot, other.Pilot), cmp.Compare(a.Counter, other.Counter))
}

// Compare orders outputs by attempt, then by name.
func (o OutputID) Compare(other OutputID) int {
	return cmp.Or(o.Attempt.Compare(other.Attempt), cmp.Compare(o.LFN, other.LFN))
}
