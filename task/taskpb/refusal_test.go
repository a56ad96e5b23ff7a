package taskpb_test

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

func refusalOf(t *testing.T, info *errdetails.ErrorInfo) error {
	t.Helper()
	s, err := status.New(codes.FailedPrecondition, "no").WithDetails(info)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Errorf("sync: %w", s.Err())
}

func TestTermInOffice(t *testing.T) {
	good := map[string]string{"site": "siteA", "epoch": "7", "ballot": "2", "peer": "12D3", "master": "p-aaaaaaaa"}
	stale := refusalOf(t, &errdetails.ErrorInfo{Domain: taskpb.ErrorDomain, Reason: taskpb.ReasonStaleTerm, Metadata: good})
	term, master, ok := taskpb.TermInOffice(stale)
	if want := (task.Term{Epoch: 7, Ballot: 2, Peer: "12D3"}); !ok || term != want || master != "p-aaaaaaaa" {
		t.Errorf("read %v of %s (%v), want %v", term, master, ok, want)
	}
	for name, err := range map[string]error{
		"no error":      nil,
		"another error": errors.New("x"),
		"no detail":     status.Error(codes.FailedPrecondition, "no"),
		"of others":     refusalOf(t, &errdetails.ErrorInfo{Domain: "elsewhere", Reason: taskpb.ReasonStaleTerm, Metadata: good}),
		"other reason":  refusalOf(t, &errdetails.ErrorInfo{Domain: taskpb.ErrorDomain, Reason: "CONFLICT", Metadata: good}),
		"no numbers":    refusalOf(t, &errdetails.ErrorInfo{Domain: taskpb.ErrorDomain, Reason: taskpb.ReasonStaleTerm}),
	} {
		if _, _, ok := taskpb.TermInOffice(err); ok {
			t.Errorf("%s: read as a term in office", name)
		}
	}
}
