package exec

import (
	"errors"
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// StagedInput is a cached file to be placed in the work folder.
type StagedInput struct {
	Name string // place in the work folder
	Path string // cached file, 0444 or 0555
	Exec bool   // placed executable
}

// Spec is one attempt to be run.
type Spec struct {
	Attempt task.AttemptID
	Number  int // display number: a1, a2, ...
	Task    task.Task
	Inputs  []StagedInput
}

// Collected is one declared output as the payload left it.
type Collected struct {
	LFN  task.LFN
	Name string // as declared: below the work folder, from where the caller may move it
	Size task.Bytes
	Exec bool
}

// Result is how an attempt ended.
type Result struct {
	OK       bool
	Failure  task.FailureKind
	Reason   string // for people; empty on success
	ExitCode int    // -1 when ended by a signal or never started
	Signal   string // e.g. "SIGKILL"; empty when none
	// Usage counts CPU time of the payload and of all descendants that ended.
	// MaxMemory is the largest sampled memory of payload and descendants: pages
	// that processes share count once (PSS), and so does what they hold in
	// memory without mapping it (memfd, System V, own mounts). It is 0 for a
	// payload that ended before the first sample.
	Usage   task.Usage
	Outputs []Collected // all declared outputs when OK
	Stdout  []byte      // the end of the stream, at most task.LogTail
	Stderr  []byte
	Process int       // from which all of the payload's descend; 0 when it never started
	Started time.Time // exec of the payload; zero when it never started
	Ended   time.Time // its exit
	Run     time.Duration
	// ModifiedInputs names inputs whose cached file changed, which trusted
	// payloads can do: the caller discards these from its cache.
	ModifiedInputs []string
	Folder         string // the work folder, kept until Release
}

// payloadError is a failure that the payload or its description caused.
type payloadError struct{ reason string }

func (e *payloadError) Error() string { return e.reason }

func payloadErrorf(format string, values ...any) error {
	return &payloadError{fmt.Sprintf(format, values...)}
}

// fail notes a failure unless an earlier one was noted: the first reason is
// the cause, later ones are its consequences.
func (r *Result) fail(kind task.FailureKind, reason string) {
	r.OK = false
	if r.Failure == task.NoFailure {
		r.Failure, r.Reason = kind, reason
	}
}

// failWith notes err: a payloadError is the payload's failure, any other one
// is the pilot's.
func (r *Result) failWith(err error) {
	var mistake *payloadError
	switch {
	case err == nil:
	case errors.As(err, &mistake):
		r.fail(task.PayloadFailed, err.Error())
	default:
		r.fail(task.PilotFailed, err.Error())
	}
}
