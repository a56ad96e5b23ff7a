package peer

import (
	"errors"
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/task"
)

// Errors on which callers decide.
var (
	// ErrNotHeld tells that the peer answers and does not have the file.
	ErrNotHeld = errors.New("the pilot does not have the file")
	// ErrUnreachable tells that there was no connection to the peer, no answer
	// that makes sense, or that it broke off. Also who is not the expected peer
	// or no member of the site is unreachable.
	ErrUnreachable = errors.New("pilot unreachable")
)

// BusyError tells that the peer serves as many transfers as it may. It is not
// dead: come back, or go to the others.
type BusyError struct {
	Peer       task.PeerID
	RetryAfter time.Duration
	Others     []cache.Holder
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("pilot %s serves as many transfers as it may: retry in %s or at %d others", e.Peer, e.RetryAfter, len(e.Others))
}

// CorruptError tells that the peer sent bytes, or a manifest, that are not
// those of the file. Nothing of the chunk was counted.
type CorruptError struct {
	Peer   task.PeerID
	Key    task.FileKey
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("pilot %s sent wrong bytes for %s: %s; nothing of it was kept", e.Peer, e.Key, e.Reason)
}

// WriteError tells that arriving bytes could not be written: the fault of this
// pilot, not of a source.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return "write what arrives: " + e.Err.Error() }

// Unwrap gives the cause, e.g. *cache.NoSpaceError.
func (e *WriteError) Unwrap() error { return e.Err }

// SourceError says what was wrong with one source of a fetch.
type SourceError struct {
	Peer task.PeerID
	Err  error // wraps or is one of the errors of this package
}

func (e *SourceError) Error() string { return "pilot " + string(e.Peer) + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *SourceError) Unwrap() error { return e.Err }
