package cache

import (
	"errors"
	"fmt"

	"github.com/pilotage-grid/pilotage/task"
)

// Errors of Index on which callers decide.
var (
	// ErrUnknown tells that the index has no such file or reservation.
	ErrUnknown = errors.New("not in the cache")
	// ErrPresent tells that the file is in the cache already.
	ErrPresent = errors.New("in the cache already")
	// ErrReserved tells that room is reserved for the file already: somebody
	// is writing it.
	ErrReserved = errors.New("being written to the cache already")
)

// NoSpaceError tells that a file does not fit, even if everything evictable
// were evicted. Nothing was evicted or reserved. The amounts other than Need
// and Capacity are those at the moment of the refusal; what is neither free,
// reserved, pinned nor sole could have been evicted.
type NoSpaceError struct {
	Need     task.Bytes // asked for
	Free     task.Bytes // neither used nor reserved; negative when over capacity
	Reserved task.Bytes // held for files being written
	Pinned   task.Bytes // files in use by payloads or transfers
	Sole     task.Bytes // unpinned outputs that no storage element has yet
	Capacity task.Bytes
}

func (e *NoSpaceError) Error() string {
	if e.Need > e.Capacity {
		return fmt.Sprintf("a file of %s does not fit into a cache of %s: give the pilot a larger cache", e.Need, e.Capacity)
	}
	return fmt.Sprintf("no room for %s in the cache of %s: %s free, %s being written, %s pinned by running payloads or transfers, "+
		"%s are outputs that no storage element has yet: wait until payloads end or uploads finish, or give the pilot a larger cache",
		e.Need, e.Capacity, e.Free, e.Reserved, e.Pinned, e.Sole)
}
