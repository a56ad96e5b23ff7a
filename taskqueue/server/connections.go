package server

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/stats"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// connection is one of a client to this server.
type connection struct {
	end atomic.Pointer[connectionEnd]
}

// connectionEnd is when a connection ended: by the service clock, which moves in
// steps and not while the store takes no writes, and by this machine's.
type connectionEnd struct {
	service taskqueue.Instant
	machine time.Time
}

// endedBy is the service time by which the connection had ended, not earlier
// than it is certain; 0: it stands, or is not known.
func (c *connection) endedBy(now taskqueue.Instant) taskqueue.Instant {
	if c == nil {
		return 0
	}
	end := c.end.Load()
	if end == nil {
		return 0
	}
	return max(end.service, now.Add(-time.Since(end.machine)))
}

// connections has gRPC tell when connections end. The kernel ends those of a
// process that was killed, at once; a process that is stopped (SIGSTOP) keeps
// its own.
type connections struct {
	clock *clock
}

// connectionKey finds a call's connection in its context.
type connectionKey struct{}

// connectionOf returns the connection by which a call came; nil where it did
// not come over gRPC.
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// TagConn gives the context of a new connection, and so of its calls, a
// connection.
func (c *connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// HandleConn notes the end of a connection.
func (c *connections) HandleConn(ctx context.Context, happened stats.ConnStats) {
	if _, ended := happened.(*stats.ConnEnd); ended {
		connectionOf(ctx).end.Store(&connectionEnd{service: c.clock.now(), machine: time.Now()})
	}
}

// TagRPC leaves calls alone.
func (c *connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC leaves calls alone.
func (c *connections) HandleRPC(context.Context, stats.RPCStats) {}
