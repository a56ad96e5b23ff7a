package cache

import (
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
	return text.String()
}

// Unwrap gives the pilot's own fault to errors.Is and errors.As.
func (e *FetchError) Unwrap() error { return e.Local }
