package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// portInUse is the error of who listens where somebody does.
func portInUse(t *testing.T) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, err = net.Listen("tcp", listener.Addr().String())
	return fmt.Errorf("listen: %w", err)
}

// The table that scripts rely on.
func TestExitCodes(t *testing.T) {
	refusal := func(code codes.Code) error { return fmt.Errorf("call: %w", status.Error(code, "no")) }
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"internal", errors.New("broken"), 1},
		{"internal at the queue", refusal(codes.Internal), 1},
		{"lost data", refusal(codes.DataLoss), 1},
		{"usage", usage(errors.New("bad flag")), 2},
		{"bad file", refusal(codes.InvalidArgument), 2},
		{"too much", refusal(codes.ResourceExhausted), 2},
		{"full disk at the queue", fullDisk(t), 3},
		{"unreachable", refusal(codes.Unavailable), 3},
		{"unreachable, named", notReached("queue:7420", refusal(codes.Unavailable)), 3},
		{"a web server, named", notReached("queue:7421", refusedBy(webServer)), 3},
		{"no access", refusal(codes.Unauthenticated), 4},
		{"not allowed", refusal(codes.PermissionDenied), 4},
		{"expired access file", fmt.Errorf("read: %w", accessError(&identity.ExpiredError{Subject: "the access", Expired: time.Unix(0, 0)})), 4},
		{"not found", refusal(codes.NotFound), 5},
		{"failed workflow", &silentError{exitFailed}, 6},
		{"time is up", coded(exitTimeout, "not over"), 7},
		{"deadline", refusal(codes.DeadlineExceeded), 7},
		{"conflict", refusal(codes.Aborted), 8},
		{"exists", refusal(codes.AlreadyExists), 8},
		{"a pilot's folder in use", fmt.Errorf("open: %w", disk.ErrInUse), 8},
		{"a queue's folder in use", fmt.Errorf("open: %w", server.ErrInUse), 8},
		{"a port in use", portInUse(t), 8},
		{"stale", refusal(codes.FailedPrecondition), 8},
		{"coded beats its cause", coded(exitConflict, "no: %w", refusal(codes.NotFound)), 8},
		{"wrapped code", fmt.Errorf("submit: %w", usage(errors.New("x"))), 2},
	} {
		if got := exitCode(context.Background(), c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d (%v)", c.name, got, c.want, c.err)
		}
	}
	interrupted, cancel := context.WithCancel(context.Background())
	cancel()
	if got := exitCode(interrupted, refusal(codes.Canceled)); got != 130 {
		t.Errorf("interrupted: exit code %d, want 130", got)
	}
	if got := exitCode(interrupted, &silentError{exitFailed}); got != 6 {
		t.Errorf("interrupted after the verdict: exit code %d, want 6", got)
	}
	if usage(nil) != nil || notReached("queue:7420", nil) != nil {
		t.Error("no error became one")
	}
}

// Messages are for people: without gRPC's wrapping, with what to do next.
func TestErrorsArePlain(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.Unavailable:      "cannot be reached: no route",
		codes.Unauthenticated:  "pilotage access create",
		codes.PermissionDenied: "no route\nChoose another access file with --access",
		codes.NotFound:         "no route",
	} {
		text := explain(fmt.Errorf("call: %w", status.Error(code, "no route")))
		if !strings.Contains(text, want) || strings.Contains(text, "rpc error") || strings.Contains(text, "desc =") {
			t.Errorf("%s is told as %q, want %q in it", code, text, want)
		}
	}
	if text := explain(notReached("queue:7420", status.Error(codes.Unavailable, "refused"))); !strings.Contains(text, "queue:7420") || !strings.Contains(text, "pilotage taskqueue") {
		t.Errorf("a queue that is away is told as %q", text)
	}
	changed := status.Error(codes.Unavailable, "authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority")
	if text := explain(notReached("queue:7420", changed)); !strings.Contains(text, "new access file") || strings.Contains(text, "pilotage taskqueue") {
		t.Errorf("an authority that has changed is told as %q", text)
	}
	if text := explain(notReached("queue:7421", refusedBy(webServer))); !strings.Contains(text, "queue:7421 is no task queue") || strings.Contains(text, "HTTP") {
		t.Errorf("a web server is told as %q", text)
	}
	if text := explain(refusalFor(t, codes.PermissionDenied, "BANNED")); !strings.Contains(text, "unban") || strings.Contains(text, "Choose another") {
		t.Errorf("a ban is told as %q", text)
	}
	if text := explain(refusalFor(t, codes.PermissionDenied, "REFUSED")); strings.Contains(text, "Choose another") {
		t.Errorf("another's work is told as %q", text)
	}
	for _, code := range []codes.Code{codes.Unauthenticated, codes.PermissionDenied} { // of a token that is in no access file
		err := tokenRefused(fmt.Errorf("call: %w", status.Error(code, "the token expired")))
		if text := explain(err); strings.Contains(text, "access file") || !strings.HasSuffix(text, "the token expired") || exitCode(t.Context(), err) != exitRefused {
			t.Errorf("%s of a token is told as %q", code, text)
		}
	}
	if text := explain(errors.New("plain")); text != "plain" {
		t.Errorf("plain became %q", text)
	}
}

// webServer is what gRPC tells of the live page, to which an access file names the way.
const webServer = `unexpected HTTP status code received from server: 405 (Method Not Allowed); transport: received unexpected content-type "text/plain"`

func refusedBy(text string) error { return fmt.Errorf("call: %w", status.Error(codes.Unknown, text)) }

// fullDisk is the refusal of a queue without space.
func fullDisk(t *testing.T) error {
	t.Helper()
	return refusalFor(t, codes.ResourceExhausted, taskpb.ReasonDiskFull)
}

func refusalFor(t *testing.T, code codes.Code, why string) error {
	t.Helper()
	refusal, err := status.New(code, "no").WithDetails(&errdetails.ErrorInfo{Reason: why, Domain: taskpb.ErrorDomain})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Errorf("submit: %w", refusal.Err())
}

// A certificate for the page that cannot be read is a file that is no good.
func TestABadCertificateForThePageIsWrongUsage(t *testing.T) {
	_, err := call(t, "taskqueue", "--data", t.TempDir(), "--http-cert", "absent.pem", "--http-key", "absent.key")
	if code := exitCode(t.Context(), err); code != exitUsage || !strings.Contains(err.Error(), "absent.pem") {
		t.Errorf("exit code %d, %v", code, err)
	}
}
