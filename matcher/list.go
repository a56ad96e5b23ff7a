package matcher

import (
	"errors"
	"fmt"

	"github.com/pilotage-grid/pilotage/task"
)

// ListVersion names one state of a site's task list. N counts the changes
// that the master of the term has made; versions of different terms do not
// compare.
type ListVersion struct {
	Term task.Term
	N    uint64
}

func (v ListVersion) String() string { return fmt.Sprintf("%s#%d", v.Term, v.N) }

// FileInfo is an input of a listed task.
type FileInfo struct {
	Key  task.FileKey
	LFN  task.LFN
	Size task.Bytes // -1 while not known
	// Source is where a pilot that does not have the file would read it:
	// a peer, the site's storage element or another site's.
	Source task.Source
}

// ListEntry is one task of the list. Entries are immutable and may be shared.
type ListEntry struct {
	No      uint64 // unique in the term, never reused
	Version uint64 // N of the list version that introduced it
	Class   uint32 // number of its ListClass
	// Task has what expressions may look at: ID, Resources, Priority, Walltime and Bound.
	// No more of it travels.
	Task  *task.Task
	Files []FileInfo
}

// ListClass gives a class its number within the term.
type ListClass struct {
	No    uint32
	Class task.Class
}

// ListSnapshot is a whole task list.
type ListSnapshot struct {
	Version ListVersion
	Rates   Rates // of the site: all ranks of one list are priced alike
	Classes []ListClass
	Entries []*ListEntry
}

// ListDelta turns the list of version Base into that of Version. Removing
// what is not there is allowed, so a delta may be applied late.
type ListDelta struct {
	Base, Version ListVersion
	Classes       []ListClass // new ones
	Add           []*ListEntry
	Remove        []uint64
	DropClasses   []uint32 // without entries from now on
}

// ErrListGap tells that a delta does not start from the list at hand; the
// receiver must ask for a snapshot.
var ErrListGap = errors.New("task list delta does not follow the list at hand: ask for a snapshot")
