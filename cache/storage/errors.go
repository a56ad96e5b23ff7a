package storage

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// Kinds of errors on which callers decide.
var (
	// ErrNotFound tells that the element answers and has no such file.
	ErrNotFound = errors.New("no such file on the storage element")
	// ErrUnreachable tells that the element does not answer, or only that it
	// cannot serve now.
	ErrUnreachable = errors.New("storage element unreachable")
	// ErrRefused tells that the element, or this package for safety's sake, does
	// not allow it.
	ErrRefused = errors.New("refused")
	// ErrFull tells that the element has no room.
	ErrFull = errors.New("storage element is full")
	// ErrSize tells that content has not the announced size.
	ErrSize = errors.New("content has another size than announced")
	// ErrOffset tells that reading was to begin beyond the end of a file.
	ErrOffset = errors.New("offset is beyond the end of the file")
	// ErrUnsupported tells that the element cannot list its folders.
	ErrUnsupported = errors.New("the storage element does not list its folders")
	// ErrInvalid tells that a URL or a name is not allowed.
	ErrInvalid = errors.New("invalid")
)

// Error is what every failed operation returns, but those that never began
// (ErrInvalid) and those ended by their context.
type Error struct {
	Op        string // get, put, head, delete, list
	URL       string // without its query, which may carry a secret
	Kind      error  // one of the kinds above, or nil
	Status    int    // of HTTP, 0 if there was no answer
	Temporary bool   // may work later, unchanged
	Err       error  // the cause, may be nil
	Advice    string // what to do

	retryAfter time.Duration // as the server asked
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s %s", e.Op, e.URL)
	if e.Kind != nil {
		text += ": " + e.Kind.Error()
	}
	if e.Status != 0 {
		text += fmt.Sprintf(": HTTP status %d", e.Status)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

// Unwrap gives kind and cause to errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	var wrapped []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			wrapped = append(wrapped, err)
		}
	}
	return wrapped
}

// Temporary tells whether the same call may work later. Retries inside this
// package have been used up by then: try another source, or wait longer.
func Temporary(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.Temporary
}

// ended tells whether the caller's context is the reason for an error, which
// then is returned as such.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// shown is a URL for messages.
func shown(u *url.URL) string {
	bare := *u
	bare.RawQuery, bare.User = "", nil
	return bare.String()
}
