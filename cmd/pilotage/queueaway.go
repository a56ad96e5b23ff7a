package main

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// How calls are tried again that may safely reach the queue twice.
const (
	againFor   = 30 * time.Second // a queue's restart and its recovery
	againFirst = 200 * time.Millisecond
	againMost  = 5 * time.Second
)

// again calls until the queue answers, for at most againFor. Pauses have full
// jitter: many clients that wait for one queue must not come back together.
// The call must be idempotent.
func (o *console) again(ctx context.Context, call func() error) error {
	limit := time.After(againFor)
	for pause := againFirst; ; pause = min(2*pause, againMost) {
		err := call()
		if !unreachable(err) {
			return err
		}
		if pause == againFirst {
			o.note("waiting for the task queue, at most %s: %s\n", againFor, reason(err))
		}
		select {
		case <-time.After(rand.N(pause)):
		case <-limit:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unreachable tells whether the queue may answer the same call later.
func unreachable(err error) bool {
	s, ok := statusOf(err)
	return ok && s.Code() == codes.Unavailable || refusal(err) == taskpb.ReasonBusy
}

// reason is the message of an error without gRPC's wrapping.
func reason(err error) string {
	if s, ok := statusOf(err); ok {
		return s.Message()
	}
	return err.Error()
}
