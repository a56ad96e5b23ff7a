package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// cramped is a queue whose process may open little, and that is soon tired of strangers.
func cramped(c *server.Config) {
	c.Descriptors, c.Timing.Stranger = 128, time.Second // enough for the calls of one connection on a busy machine
}

// TestAStrangerIsShownTheDoor is what somebody without an access may send and hold:
// little, shortly. Meanwhile others are served.
func TestAStrangerIsShownTheDoor(t *testing.T) {
	q := start(t, cramped)
	submit := q.submit()
	serves := func() {
		t.Helper()
		if _, err := submit.ListWorkflows(q.ctx, &pb.ListWorkflowsRequest{}); err != nil {
			t.Errorf("a user is not served: %v", err)
		}
	}
	serves()
	stranger := q.dial("", nil)
	health := healthpb.NewHealthClient(stranger)
	if _, err := health.Check(q.ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("a stranger may ask whether the queue is well: %v", err)
	}

	// A large message is not read to its end.
	large := &healthpb.HealthCheckRequest{Service: strings.Repeat("x", 4<<20)}
	if _, err := health.Check(q.ctx, large, grpc.MaxCallSendMsgSize(8<<20)); status.Code(err) != codes.Unavailable {
		t.Errorf("4 MiB of a stranger: %v", err)
	}

	// Calls of one address are few; the answer says when to come again.
	ctx, cancel := context.WithCancel(q.ctx)
	var refused error
	many := healthpb.NewHealthClient(q.dial("", nil))
	for i := 0; i < 100 && refused == nil; i++ {
		watch, err := many.Watch(ctx, &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, refused = watch.Recv()
	}
	wantRefusal(t, refused, codes.ResourceExhausted, "BUSY")
	cancel()

	// Connections that say nothing, before and after the handshake, displace one
	// another and end.
	var held []net.Conn
	for i := range 400 {
		c, err := net.Dial("tcp", q.server.Addresses().GRPC)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%8 == 0 {
			c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			_ = c.(*tls.Conn).HandshakeContext(q.ctx) // it may have been displaced already
		}
		if held = append(held, c); i%100 == 0 {
			serves()
		}
	}
	serves()
	for _, c := range held {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		for buffer := make([]byte, 4096); ; {
			_, err := c.Read(buffer)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("a silent connection is held open")
			}
			if err != nil {
				break
			}
		}
	}
	serves()
	_, metrics := q.get("/metrics")
	for _, want := range []string{`pilotage_refused_total{reason="BUSY",site=""}`, `pilotage_refused_connections_total{why="displaced"}`, `pilotage_refused_connections_total{why="stranger"}`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
}
