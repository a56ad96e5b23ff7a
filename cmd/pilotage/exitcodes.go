package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// Exit codes; scripts rely on them.
const (
	exitOK          = 0
	exitInternal    = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitRefused     = 4
	exitNotFound    = 5
	exitFailed      = 6
	exitTimeout     = 7
	exitConflict    = 8
	exitInterrupted = 130
	// exitUnfit ends a pilot, or --check, on a node that fails the self-check.
	exitUnfit = exitInternal
)

// codedError carries its own exit code.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

// coded gives an error an exit code.
func coded(code int, format string, args ...any) error {
	return &codedError{code: code, err: fmt.Errorf(format, args...)}
}

// silentError ends the command with a code; everything has been said.
type silentError struct{ code int }

func (e *silentError) Error() string { return fmt.Sprintf("exit %d", e.code) }

// usage wraps an error of the command line or of a file that was given.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code: exitUsage, err: err}
}

// exitCode maps an error to the code that scripts see.
func exitCode(ctx context.Context, err error) int {
	var withCode *codedError
	var silent *silentError
	var expired *identity.ExpiredError
	switch {
	case errors.As(err, &silent):
		return silent.code
	case ctx.Err() != nil: // whatever failed then, failed for that
		return exitInterrupted
	case errors.As(err, &withCode):
		return withCode.code
	case errors.As(err, &expired):
		return exitRefused
	case errors.Is(err, disk.ErrInUse), errors.Is(err, server.ErrInUse), errors.Is(err, syscall.EADDRINUSE):
		return exitConflict
	}
	switch refusal(err) {
	case taskpb.ReasonDiskFull, taskpb.ReasonBusy:
		return exitUnreachable // as good as away: the same call may be tried again
	}
	if s, ok := statusOf(err); ok {
		return statusCode(s.Code())
	}
	return exitInternal
}

// refusal is the queue's reason for refusing a call, "" for none.
func refusal(err error) string {
	reason, _, _ := taskpb.Refusal(err)
	return reason
}

func statusCode(code codes.Code) int {
	switch code {
	case codes.InvalidArgument, codes.OutOfRange, codes.ResourceExhausted:
		return exitUsage
	case codes.Unavailable:
		return exitUnreachable
	case codes.Unauthenticated, codes.PermissionDenied:
		return exitRefused
	case codes.NotFound:
		return exitNotFound
	case codes.DeadlineExceeded:
		return exitTimeout
	case codes.AlreadyExists, codes.Aborted, codes.FailedPrecondition:
		return exitConflict
	default:
		return exitInternal
	}
}

// statusOf finds the gRPC status within an error.
func statusOf(err error) (*status.Status, bool) {
	var carrier interface{ GRPCStatus() *status.Status }
	if errors.As(err, &carrier) {
		return carrier.GRPCStatus(), true
	}
	return nil, false
}

// notReached names the queue that did not answer.
func notReached(address string, err error) error {
	s, ok := statusOf(err)
	switch {
	case fromWebServer(err):
		return coded(exitUnreachable, "what answers at %s is no task queue\nDoes the access file name the port of --listen (7420), and not that of the page (7421)?", address)
	case !ok || s.Code() != codes.Unavailable:
		return err
	case strings.Contains(s.Message(), "certificate signed by unknown authority"): // in crypto/x509's words
		return coded(exitUnreachable, "what answers at %s does not belong to the authority that the access file names: another VO's queue, or the authority has changed\n"+
			"Take a new access file from the queue.", address)
	}
	return coded(exitUnreachable, "the task queue at %s cannot be reached: %s\nIs `pilotage taskqueue` running, and does the access file name its address?", address, s.Message())
}

// tokenRefused says so of a token of another issuer: the queue has said why, and no other
// access file helps.
func tokenRefused(err error) error {
	s, ok := statusOf(err)
	switch {
	case ok && s.Code() == codes.Unauthenticated:
		return coded(exitRefused, "the task queue refused your token: %s", s.Message())
	case ok && s.Code() == codes.PermissionDenied && refusal(err) != "BANNED":
		return coded(exitRefused, "%s", s.Message())
	}
	return err
}

// fromWebServer tells whether a server without gRPC, such as the live page, has answered.
func fromWebServer(err error) bool {
	s, ok := statusOf(err)
	return ok && strings.HasPrefix(s.Message(), "unexpected HTTP status") // in gRPC's words
}

// explain is the error as people read it: without gRPC's wrapping, with what
// to do next where that is known.
func explain(err error) string {
	s, ok := statusOf(err)
	if !ok {
		return err.Error()
	}
	if refusal(err) == taskpb.ReasonDiskFull {
		return "the task queue's disk is full; nothing of this call was kept, try again when there is room: " + s.Message()
	}
	switch s.Code() {
	case codes.Unavailable:
		return "the task queue cannot be reached: " + s.Message()
	case codes.Unauthenticated:
		text := "the task queue refused the access: " + s.Message()
		if strings.Contains(text, "access file") { // the queue has said what to do
			return text
		}
		return text + "\nAsk the queue's operator for a new access file (`pilotage access create`)."
	case codes.PermissionDenied:
		switch refusal(err) {
		case "BANNED":
			return s.Message() + "\nAsk the VO's admin, who can lift the ban (`pilotage access unban`)."
		case taskpb.ReasonRevoked, "REFUSED": // the queue has said what to do, or whose it is
			return s.Message()
		}
		return s.Message() + "\nChoose another access file with --access or PILOTAGE_ACCESS, or ask the queue's operator for one (`pilotage access create`)."
	default:
		return s.Message()
	}
}
