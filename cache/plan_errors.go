package cache

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// Try is one source that did not give a file, and why; repeated failures of
// one source are counted.
type Try struct {
	Source string // "peer ID", "SITE's storage element URL", "home", "locations"
	Reason string
	Times  int
}

// FetchError tells that a file could not be had, with every source tried.
type FetchError struct {
	File  task.File
	Lost  bool // no peer gave it, and each storage element that should have it has none or other bytes
	Away  bool // a storage element that should have it did not answer: it may later
	Tries []Try
	Local error // the pilot's own fault, e.g. *NoSpaceError; nil otherwise
}

func (e *FetchError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "cannot fetch %s (%s): ", e.File.LFN, e.File.Key())
	switch {
	case e.Local != nil:
		fmt.Fprintf(&text, "%v", e.Local)
	case e.Lost && len(e.File.Replicas) == 0:
		text.WriteString("no pilot gave it and no storage element has it")
	case e.Lost:
		text.WriteString("no pilot gave it and its storage elements have it no more, or other bytes in its place")
	case e.Away:
		text.WriteString("no pilot gave it and a storage element does not answer")
	default:
		text.WriteString("no source gave it: check the storage elements below")
	}
	for i, try := range e.Tries {
		text.WriteString(map[bool]string{true: "; tried ", false: ", "}[i == 0])
		fmt.Fprintf(&text, "%s: %s", try.Source, try.Reason)
		if try.Times > 1 {
			fmt.Fprintf(&text, " (%d times)", try.Times)
		}
	}
	if e.Lost && e.File.Producer.IsZero() {
		text.WriteString("; no task makes this file: put it back in its place, or name another copy with `pilotage file register`, and retry")
	}
	return text.String()
}

// Unwrap gives the pilot's own fault to errors.Is and errors.As.
func (e *FetchError) Unwrap() error { return e.Local }

// FetchErrors are all inputs of one task that are known not to be had.
type FetchErrors []*FetchError

func (e FetchErrors) Error() string {
	reasons := make([]string, len(e))
	for i, one := range e {
		reasons[i] = one.Error()
	}
	return strings.Join(reasons, "\n")
}

// Unwrap gives the single errors.
func (e FetchErrors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// Lost lists the files that are lost and that a task can make again.
func (e FetchErrors) Lost() []task.File {
	var files []task.File
	for _, one := range e {
		if one.Lost && !one.File.Producer.IsZero() {
			files = append(files, one.File)
		}
	}
	return files
}

// Kind says whose failure it is: the inputs' own (one cannot be had even when
// all goes well), this pilot's, or a storage element's that may answer later.
func (e FetchErrors) Kind() task.FailureKind {
	kind := task.StorageFailed
	for _, one := range e {
		switch {
		case one.Local != nil:
			kind = task.PilotFailed
		case !one.Away:
			return task.InputMissing
		}
	}
	return kind
}

// NoRoom tells that the cache has no room for the files beside what is pinned.
func (e FetchErrors) NoRoom() bool {
	var full *NoSpaceError
	return e.Kind() == task.PilotFailed && errors.As(e, &full)
}
