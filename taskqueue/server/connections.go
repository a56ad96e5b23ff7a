package server

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// connection is one of a client to this server. It lives on in the signs of
// life that came by it.
type connection struct {
	end atomic.Int64
}

// ended is when the connection ended; 0: it stands.
func (c *connection) ended() taskqueue.Instant { return taskqueue.Instant(c.end.Load()) }

// connections has gRPC tell when connections end: the kernel ends those of a
// process that was killed, at once, and leaves those of one that was stopped.
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
		connectionOf(ctx).end.Store(int64(c.clock.now()))
	}
}

// TagRPC leaves calls alone.
func (c *connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC leaves calls alone.
func (c *connections) HandleRPC(context.Context, stats.RPCStats) {}
