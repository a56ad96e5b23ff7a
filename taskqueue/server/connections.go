package server

import (
	"context"

	"google.golang.org/grpc/stats"

	"github.com/pilotage-grid/pilotage/taskqueue/serving"
)

// connections has gRPC tell when connections end. The kernel ends those of a
// process that was killed, at once; a process that is stopped (SIGSTOP) keeps
// its own.
type connections struct{ masters *masters }

// connectionKey finds a call's connection in its context.
type connectionKey struct{}

// connectionOf returns the connection by which a call came; nil where it did
// not come over gRPC.
func connectionOf(ctx context.Context) *serving.Connection {
	c, _ := ctx.Value(connectionKey{}).(*serving.Connection)
	return c
}

// TagConn gives the context of a new connection, and so of its calls, a
// connection.
func (c *connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{}, &serving.Connection{})
}

// HandleConn notes the end of a connection.
func (c *connections) HandleConn(ctx context.Context, happened stats.ConnStats) {
	if _, ended := happened.(*stats.ConnEnd); ended {
		c.masters.desk.HangUp(c.masters.turns.now(), connectionOf(ctx))
	}
}

// TagRPC leaves calls alone.
func (c *connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC leaves calls alone.
func (c *connections) HandleRPC(context.Context, stats.RPCStats) {}
