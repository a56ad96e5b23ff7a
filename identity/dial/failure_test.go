package dial

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pilotage-grid/pilotage/identity"
	"time"
)

// Who reads why a call failed sees the cause, not gRPC's layers around it; code
// and message are what programs get.
func TestFailuresInPlainWords(t *testing.T) {
	for message, want := range map[string]string{
		`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`: "dial tcp 127.0.0.1:1: connect: connection refused",
		`last connection error: connection error: desc = "transport: authentication handshake failed: x509: \"a\""`:    `last connection error: authentication handshake failed: x509: "a"`,
		"site siteA: not found": "site siteA: not found",
	} {
		err := inPlainWords(fmt.Errorf("call: %w", status.Error(codes.Unavailable, message)))
		if err.Error() != want || status.Code(err) != codes.Unavailable || status.Convert(fmt.Errorf("again: %w", err)).Code() != codes.Unavailable {
			t.Errorf("%q becomes %q of code %s, want %q", message, err, status.Code(err), want)
		}
	}
	if inPlainWords(nil) != nil {
		t.Error("a call that succeeded failed")
	}
}

func TestNobodyAnswers(t *testing.T) {
	authority, err := identity.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pem, _ := authority.PEM()
	config, err := identity.QueueClientTLS(pem, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := Queue([]string{closedPort(t)}, config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client := healthpb.NewHealthClient(connection)
	_, call := client.Check(ctx, &healthpb.HealthCheckRequest{})
	stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	for _, err := range []error{call, err} {
		if status.Code(err) != codes.Unavailable || !strings.HasPrefix(err.Error(), "dial tcp ") || !strings.HasSuffix(err.Error(), "connection refused") {
			t.Errorf("nobody answers: %v", err)
		}
	}
}
