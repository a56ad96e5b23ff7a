package agent

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// refusingQueue answers one call after the other with these errors.
type refusingQueue struct {
	grpc.ClientConnInterface

	answers []error
}

func (q *refusingQueue) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	err := q.answers[0]
	q.answers = q.answers[1:]
	return err
}

// A queue that has no room to write a registration down is as good as away: the
// pilot waits, and does not cost its batch job. Any other refusal ends it.
func TestARegistrationWaitsForRoom(t *testing.T) {
	full, err := status.New(codes.ResourceExhausted, "the disk is full").WithDetails(
		&errdetails.ErrorInfo{Domain: taskpb.ErrorDomain, Reason: taskpb.ReasonDiskFull})
	if err != nil {
		t.Fatal(err)
	}
	key, err := identity.NewPilotKey()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		queue := &refusingQueue{answers: []error{
			full.Err(), status.Error(codes.Unavailable, "away"), full.Err(), status.Error(codes.ResourceExhausted, "too large"), nil,
		}}
		_, err := registerPatiently(t.Context(), queue, key, &pb.RegisterRequest{Site: "siteA"}, slog.New(slog.DiscardHandler))
		if len(queue.answers) != 1 || status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%d answers were not asked for, and it ends with %v", len(queue.answers), err)
		}
	})
}
