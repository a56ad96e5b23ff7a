package server

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/pilotage-grid/pilotage/identity/issuer"
)

// A call whose token's keys are on their way is told when to come again, as clients do.
func TestKeysThatComeAreWaitedFor(t *testing.T) {
	said := status.Convert(statusOf(fmt.Errorf("%w: wlcg", issuer.ErrNoKeys)))
	if !slices.ContainsFunc(said.Details(), func(detail any) bool {
		info, is := detail.(*errdetails.RetryInfo)
		return is && info.GetRetryDelay().AsDuration() == keysCome
	}) {
		t.Errorf("%v with %v", said, said.Details())
	}
}
