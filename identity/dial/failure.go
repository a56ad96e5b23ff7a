package dial

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// failure is the error of a call as people read it: gRPC's own text begins with
// "rpc error: code = ...", and hides "connection refused" in two layers of quotes.
// Code and details stay.
type failure struct {
	status *status.Status // with the plain message
	call   error
}

func (f *failure) Error() string              { return f.status.Message() }
func (f *failure) Unwrap() error              { return f.call }
func (f *failure) GRPCStatus() *status.Status { return f.status }

// inPlainWords makes a failure of what a call returned. What is no status (nil,
// the end of a stream) stays.
func inPlainWords(err error) error {
	var carrier interface{ GRPCStatus() *status.Status }
	if err == nil || errors.Is(err, io.EOF) || !errors.As(err, &carrier) {
		return err
	}
	said, _ := proto.Clone(carrier.GRPCStatus().Proto()).(*spb.Status)
	said.Message = plain(said.GetMessage())
	return &failure{status: status.FromProto(said), call: err}
}

// wrapped is how gRPC tells why a connection failed.
var wrapped = regexp.MustCompile(`connection error: desc = ("(?:[^"\\]|\\.)*")`)

func plain(message string) string {
	return wrapped.ReplaceAllStringFunc(message, func(text string) string {
		_, quoted, _ := strings.Cut(text, "= ")
		cause, err := strconv.Unquote(quoted)
		if err != nil {
			return text
		}
		return strings.TrimPrefix(strings.TrimPrefix(cause, "transport: "), "Error while dialing: ")
	})
}

func plainCall(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	return inPlainWords(call(ctx, method, request, reply, conn, options...))
}

func plainStream(ctx context.Context, about *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, about, conn, method, options...)
	if err != nil {
		return nil, inPlainWords(err)
	}
	return &plainMessages{stream}, nil
}

type plainMessages struct{ grpc.ClientStream }

// SendMsg satisfies grpc.ClientStream.
func (s *plainMessages) SendMsg(message any) error {
	return inPlainWords(s.ClientStream.SendMsg(message))
}

// RecvMsg satisfies grpc.ClientStream.
func (s *plainMessages) RecvMsg(message any) error {
	return inPlainWords(s.ClientStream.RecvMsg(message))
}
