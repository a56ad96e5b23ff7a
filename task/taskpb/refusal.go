package taskpb

import (
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

const (
	// ErrorDomain is the domain of every google.rpc.ErrorInfo of the queue.
	ErrorDomain = "pilotage"
	// ReasonStaleTerm is the reason of a refusal because another mastership
	// is in office; its metadata has site, epoch, ballot, peer and master.
	ReasonStaleTerm = "STALE_TERM"
	// ReasonRevoked is the reason of every refusal to a pilot whose membership
	// was revoked.
	ReasonRevoked = "MEMBERSHIP_REVOKED"
	// ReasonDiskFull is the reason of every refusal of a queue that has no space
	// left to write to: nothing was kept, and the call may be tried again.
	ReasonDiskFull = "DISK_FULL"
	// ReasonBusy is the reason of a refusal that says, by google.rpc.RetryInfo, when to
	// come again.
	ReasonBusy = "BUSY"
)

// Refusal finds the queue's reason, and what it says beside it, within an
// error of a call; false if there is none.
func Refusal(err error) (reason string, metadata map[string]string, ok bool) {
	var carrier interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &carrier) {
		return "", nil, false
	}
	for _, detail := range carrier.GRPCStatus().Details() {
		if info, is := detail.(*errdetails.ErrorInfo); is && info.GetDomain() == ErrorDomain {
			return info.GetReason(), info.GetMetadata(), true
		}
	}
	return "", nil, false
}
