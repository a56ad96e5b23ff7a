package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/issuer"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

var (
	// errNoCredentials: neither a token nor a membership certificate.
	errNoCredentials = errors.New("no access was shown: send the token of an access file as \"authorization: Bearer TOKEN\", or connect with a membership certificate")
	// errForbidden: known, but not allowed to do this.
	errForbidden = errors.New("not allowed")
	// errMemberRevoked: a pilot on the deny list.
	errMemberRevoked = errors.New("the membership of this pilot was revoked: start a new pilot")
	// errBanned: a person who is shut out.
	errBanned = errors.New("not let in")
	// errOldPilots: the site still has pilots of another release.
	errOldPilots = errors.New("pilots of two releases do not share a site: they finish what they run, and this one may register when they have left")
	// errStopping: the server ends.
	errStopping = errors.New("the queue is stopping: call again, it is usually back soon")
	// errBusy: one identity asks for more than its share.
	errBusy = errors.New("too many calls of this access, or of this address without one, are under way")
	// errPanic: a handler broke; its stack is in the log.
	errPanic = errors.New("the queue met an unexpected state; its log has the details")
)

// storeError is a failure of the store that no rule decided on.
type storeError struct{ err error }

func (e *storeError) Error() string { return "the queue's store: " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// busyError is errBusy with when to come again.
type busyError struct{ after time.Duration }

func (e *busyError) Error() string { return fmt.Sprintf("%v: come again in %s", errBusy, e.after) }
func (e *busyError) Unwrap() error { return errBusy }

// statuses is the one table from errors to status codes and the reasons that
// clients decide on (google.rpc.ErrorInfo, domain "pilotage"). The first row
// that matches counts.
var statuses = []struct {
	is     error
	code   codes.Code
	reason string
}{
	{taskqueue.ErrStaleTerm, codes.FailedPrecondition, taskpb.ReasonStaleTerm},
	// An invalid request may be so because of something that is not found.
	{taskqueue.ErrInvalid, codes.InvalidArgument, "INVALID"},
	{taskqueue.ErrNotFound, codes.NotFound, "NOT_FOUND"},
	{taskqueue.ErrWorkflowGone, codes.Aborted, "CONFLICT"},
	{taskqueue.ErrConflict, codes.Aborted, "CONFLICT"},
	{taskqueue.ErrRefused, codes.PermissionDenied, "REFUSED"},
	{taskqueue.ErrLimit, codes.ResourceExhausted, "OVER_LIMIT"},
	{errBusy, codes.ResourceExhausted, taskpb.ReasonBusy},
	{taskqueue.ErrDiskFull, codes.ResourceExhausted, taskpb.ReasonDiskFull},
	{syscall.ENOSPC, codes.ResourceExhausted, taskpb.ReasonDiskFull}, // access files
	{taskqueue.ErrClosed, codes.Unavailable, "STOPPING"},
	{errStopping, codes.Unavailable, "STOPPING"},
	{errOldPilots, codes.Unavailable, "OLD_PILOTS"},
	{sqlite.ErrDamaged, codes.DataLoss, "STORE_DAMAGED"},
	{errForbidden, codes.PermissionDenied, "FORBIDDEN"},
	{taskqueue.ErrStranger, codes.PermissionDenied, taskpb.ReasonRevoked},
	{errMemberRevoked, codes.PermissionDenied, taskpb.ReasonRevoked},
	{issuer.ErrNoKeys, codes.Unavailable, "KEYS_AWAITED"},
	{taskqueue.ErrAuditBroken, codes.DataLoss, "AUDIT_BROKEN"},
	{errBanned, codes.PermissionDenied, "BANNED"},
	{errNoCredentials, codes.Unauthenticated, "NO_ACCESS"},
	{identity.ErrExpired, codes.Unauthenticated, "ACCESS_EXPIRED"},
	{identity.ErrRevoked, codes.Unauthenticated, "ACCESS_REVOKED"},
	{identity.ErrUnknownToken, codes.Unauthenticated, "TOKEN_UNKNOWN"},
	{identity.ErrMalformed, codes.Unauthenticated, "TOKEN_MALFORMED"},
	{context.Canceled, codes.Canceled, "CANCELED"},
	{context.DeadlineExceeded, codes.DeadlineExceeded, "DEADLINE_EXCEEDED"},
	{errPanic, codes.Internal, "INTERNAL"},
}

// statusOf turns the error of a handler into what the client gets.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code, reason := codes.Internal, "INTERNAL"
	if failure := (*storeError)(nil); errors.As(err, &failure) {
		code, reason = codes.Unavailable, "STORE"
	}
	for _, row := range statuses {
		if errors.Is(err, row.is) {
			code, reason = row.code, row.reason
			break
		}
	}
	info := &errdetails.ErrorInfo{Reason: reason, Domain: taskpb.ErrorDomain, Metadata: metadataOf(err)}
	details := []protoadapt.MessageV1{info}
	if after := comeAgain(err); after > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	answer := status.New(code, said(err))
	if detailed, failed := answer.WithDetails(details...); failed == nil {
		answer = detailed
	}
	return answer.Err()
}

// keysCome is how soon an issuer's keys are there, as a rule.
const keysCome = time.Second

// comeAgain is after what time the same call may do better, 0 if nobody knows.
func comeAgain(err error) time.Duration {
	if busy := (*busyError)(nil); errors.As(err, &busy) {
		return busy.after
	}
	if errors.Is(err, issuer.ErrNoKeys) {
		return keysCome
	}
	return 0
}

// mostSaid bounds what a client is told of an error, which may quote what it sent: it
// travels in a header, and clients refuse large ones without a word of what is in them.
const mostSaid = 8 << 10

func said(err error) string {
	text := err.Error()
	if len(text) > mostSaid {
		text = strings.ToValidUTF8(text[:mostSaid], "") + "..."
	}
	return text
}

// reasonOf is the reason in an answer, else its code.
func reasonOf(answer error) string {
	if reason, _, found := taskpb.Refusal(answer); found {
		return reason
	}
	return status.Code(answer).String()
}

func metadataOf(err error) map[string]string {
	stale := (*taskqueue.StaleTermError)(nil)
	if !errors.As(err, &stale) {
		return nil
	}
	return map[string]string{
		"site":   string(stale.Site),
		"epoch":  strconv.FormatUint(stale.Office.Epoch, 10),
		"ballot": strconv.FormatUint(stale.Office.Ballot, 10),
		"peer":   string(stale.Office.Peer),
		"master": string(stale.Master),
	}
}

// storeFailure marks errors that no rule decided on: they come from the store.
func storeFailure(err error) error {
	if err == nil {
		return nil
	}
	if broken := (*task.TransitionError)(nil); errors.As(err, &broken) {
		return err
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	for _, row := range statuses {
		if errors.Is(err, row.is) {
			return err
		}
	}
	return &storeError{err}
}

func invalid(format string, arguments ...any) error {
	return fmt.Errorf("%w: %w", taskqueue.ErrInvalid, fmt.Errorf(format, arguments...))
}
