package dial

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// busyTries is how often a call is made that the queue is too busy for.
const busyTries = 30

// patientCall makes a call again when the queue says when to come again. The queue
// has not looked at what it refuses so.
func patientCall(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	for try := 1; ; try++ {
		err := call(ctx, method, request, reply, conn, options...)
		after := comeAgain(err)
		if after <= 0 || try == busyTries {
			return err
		}
		// Many may have been told the same: they come spread over twice the time.
		select {
		case <-time.After(after/2 + rand.N(after)):
		case <-ctx.Done():
			return err
		}
	}
}

// comeAgain is after what time the queue wants a call again; 0: it says nothing.
func comeAgain(err error) time.Duration {
	said, ok := status.FromError(err)
	if err == nil || !ok {
		return 0
	}
	for _, detail := range said.Details() {
		if info, is := detail.(*errdetails.RetryInfo); is {
			return min(info.GetRetryDelay().AsDuration(), time.Minute)
		}
	}
	return 0
}
