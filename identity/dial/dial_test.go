package dial

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotage-grid/pilotage/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQueueNeedsAnAddress(t *testing.T) {
	if _, err := Queue(nil, nil, nil); err == nil || !strings.Contains(err.Error(), "no queue address") {
		t.Errorf("dialling nobody: %v", err)
	}
}

// The first address answers nobody; the second one serves, when it is not too busy.
func TestQueueTriesEveryAddress(t *testing.T) {
	authority, err := identity.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := authority.IssueServer([]string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tokens := make(chan string, 1)
	var tries atomic.Int32
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&certificate)),
		grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if tries.Add(1) < 3 {
				busy, err := status.New(codes.ResourceExhausted, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(5 * time.Millisecond)})
				return nil, errors.Join(busy.Err(), err)
			}
			said, _ := metadata.FromIncomingContext(ctx)
			tokens <- strings.Join(said.Get("authorization"), "")
			return next(ctx, request)
		}))
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	pem, _ := authority.PEM()
	config, err := identity.QueueClientTLS(pem, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := Queue([]string{closedPort(t), listener.Addr().String()}, config, func() string { return "secret" })
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := healthpb.NewHealthClient(connection).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	if got := <-tokens; got != "Bearer secret" {
		t.Errorf("the call carried %q", got)
	}
}

// closedPort is an address at which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
