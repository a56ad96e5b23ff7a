package server

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotage-grid/pilotage/taskqueue"
)

// guardUnary counts a call, turns its error into a status, and survives a
// panic of its handler.
func (s *Server) guardUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	method := path.Base(info.FullMethod)
	c := callerOf(ctx)
	s.countCall(c, method)
	defer func() { err = s.finish(c, method, recover(), err) }()
	if permissions[info.FullMethod]&(c.kind|anybody) == 0 {
		return nil, errForbidden // admit has let nobody get here
	}
	if err := c.speaksForItsSite(request); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

// guardStream does the same for a stream, whose messages count too.
func (s *Server) guardStream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	method := path.Base(info.FullMethod)
	c := callerOf(stream.Context())
	c.arrival.arrived() // it may last without the store
	s.countCall(c, method)
	defer func() { err = s.finish(c, method, recover(), err) }()
	if permissions[info.FullMethod]&(c.kind|anybody) == 0 {
		return errForbidden
	}
	return handle(service, &countedStream{ServerStream: stream, count: func() { s.countCall(c, method) }})
}

func (s *Server) countCall(c caller, method string) {
	if c.kind&(newPilot|member) != 0 {
		s.requests.count(c.site, method)
	}
}

// finish gives the error that the client gets, and logs those that nobody
// expected.
func (s *Server) finish(c caller, method string, broken any, err error) error {
	if broken != nil {
		s.config.Log.Error("a call panicked", "method", method, "caller", c.String(), "panic", broken, "stack", string(debug.Stack()))
		err = errPanic
	}
	if errors.Is(err, taskqueue.ErrStaleTerm) && c.site != "" {
		s.requests.countStale(c.site)
	}
	answer := statusOf(err)
	level := slog.LevelDebug
	switch status.Code(answer) {
	case codes.OK:
		return nil
	case codes.Internal, codes.Unknown, codes.DataLoss, codes.Unavailable:
		level = slog.LevelWarn
		if errors.Is(err, errStopping) || errors.Is(err, taskqueue.ErrClosed) {
			level = slog.LevelDebug
		}
	}
	s.config.Log.Log(context.Background(), level, "a call failed", "method", method, "caller", c.String(), "error", err)
	return answer
}

// countedStream counts the messages of a stream in both directions.
type countedStream struct {
	grpc.ServerStream
	count func()
}

func (s *countedStream) SendMsg(message any) error {
	s.count()
	return s.ServerStream.SendMsg(message)
}

func (s *countedStream) RecvMsg(message any) error {
	err := s.ServerStream.RecvMsg(message)
	if err == nil {
		s.count()
	}
	return err
}
