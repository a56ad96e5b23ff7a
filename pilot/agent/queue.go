package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// Queue is what a pilot wants of the task queue after its registration.
type Queue interface {
	Claim(ctx context.Context, claim dht.Claim) (ClaimReply, error)
	Sync(ctx context.Context, sync task.Sync) (task.SyncReply, error) // ErrStale for an old term
	Pull(ctx context.Context, pull task.Pull) (task.PullReply, error)
	Deliver(ctx context.Context, outcomes []task.Outcome, stored []task.Stored) ([]task.Ack, error)
	// Unreachable tells that the site's network does not carry, and returns the
	// settings of the site from then on.
	Unreachable(ctx context.Context, reason string) (task.SiteSettings, error)
	// Peers names some other live pilots of the site.
	Peers(ctx context.Context) ([]dht.Member, error)
	// Tried answers a trial of a site that has fallen back, and returns the
	// settings of the site from then on.
	Tried(ctx context.Context, trial uint64, reached bool, reason string) (task.SiteSettings, error)
	// Send gives a file to whoever waits for it, or says why it cannot be given.
	Send(ctx context.Context, id string, content io.Reader, failure string) error
	Leave(ctx context.Context, leaving Leaving) error
}

// ClaimReply is the queue's answer to a claim for the mastership.
type ClaimReply struct {
	Granted bool
	Term    task.Term
	Master  dht.Member
	Why     string
	Leases  []task.Lease
	Revoked []task.Revoked
	Pilots  []dht.Member // the site's others that are registered, when granted
	// Settings of the site, as they are now.
	Settings  task.SiteSettings
	Signature []byte // of the term, by the queue
}

// Leaving tells the queue how a pilot goes.
type Leaving struct {
	Reason  string
	Last    bool
	Resigns bool
	Term    task.Term
	// Unfinished tells that what it has stored may never be told.
	Unfinished bool
}

// Membership is what a registration gives.
type Membership struct {
	Pilot       task.PilotID
	Certificate []byte
	Authorities string     // PEM, of the VO
	Joined      dht.Joined // Self is filled in by the agent
	Settings    task.SiteSettings
	Denied      []task.PeerID
	QueueTime   time.Time
}

// ErrStale tells that a later term is in office.
var ErrStale = errors.New("another master is in office")

// A registration is tried again for a while: a queue that is being restarted
// must not cost a batch job.
const (
	registerTries = 12
	registerTime  = 10 * time.Second // for one try
	registerPause = 10 * time.Second // between tries, at the most
)

// registerPatiently makes a pilot a member of its site, and tries again while the queue
// is away. It proves that the pilot has the key.
func registerPatiently(ctx context.Context, conn grpc.ClientConnInterface, key *identity.PilotKey, r *pb.RegisterRequest, log *slog.Logger) (Membership, error) {
	r.PublicKey, r.Proof = key.Public(), key.SignRegistration(task.Site(r.GetSite()))
	for try := 1; ; try++ {
		limited, cancel := context.WithTimeout(ctx, registerTime)
		membership, err := register(limited, conn, r)
		cancel()
		if err == nil || ctx.Err() != nil || !away(err) || try == registerTries {
			return membership, err
		}
		level := slog.LevelDebug
		if try == 1 { // once is enough to know why the start takes long
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "the queue does not answer, trying again", "try", try, "of", registerTries, "error", err)
		select {
		case <-time.After(rand.N(min(registerPause, 250*time.Millisecond<<try))):
		case <-ctx.Done():
		}
	}
}

// away tells whether a refused registration may succeed later: the queue does not
// answer, or has no room to write it down.
func away(err error) bool {
	switch status.Code(errors.Unwrap(err)) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	}
	reason, _, _ := taskpb.Refusal(err)
	return reason == taskpb.ReasonDiskFull || reason == taskpb.ReasonBusy
}

func register(ctx context.Context, conn grpc.ClientConnInterface, r *pb.RegisterRequest) (Membership, error) {
	reply, err := pb.NewPilotServiceClient(conn).Register(ctx, r)
	if err != nil {
		return Membership{}, fmt.Errorf("register with the queue: %w", err)
	}
	m := Membership{
		Pilot: task.PilotID(reply.GetPilotId()), Certificate: reply.GetMembershipCertificate(), Authorities: reply.GetAuthorities(),
		Settings: taskpb.FromSettings(reply.GetSettings()), QueueTime: taskpb.FromTime(reply.GetNow()),
		Joined: dht.Joined{
			Term: taskpb.FromTerm(reply.GetTerm()), Master: fromContact(reply.GetMaster()), Signature: reply.GetTermSignature(),
		},
	}
	for _, contact := range reply.GetContacts() {
		m.Joined.Contacts = append(m.Joined.Contacts, fromContact(contact))
	}
	for _, peer := range reply.GetDeniedPeers() {
		m.Denied = append(m.Denied, task.PeerID(peer))
	}
	return m, nil
}

func fromContact(c *pb.Contact) dht.Member {
	return dht.Member{
		Peer: task.PeerID(c.GetPeer()), Pilot: task.PilotID(c.GetPilot()),
		Addresses: c.GetAddresses(), DataURL: c.GetDataUrl(),
	}
}

// grpcQueue is the Queue of a member, authenticated by its certificate.
type grpcQueue struct {
	site   task.Site
	client pb.PilotServiceClient
}

// Claim satisfies Queue.
func (q *grpcQueue) Claim(ctx context.Context, claim dht.Claim) (ClaimReply, error) {
	reply, err := q.client.ClaimMastership(ctx, &pb.ClaimMastershipRequest{
		Site: string(q.site), Expected: taskpb.Term(claim.Expected), Resigned: claim.Resigned, Resignation: claim.Resignation,
		ExpectedSignature: claim.Signature, Ballot: claim.Ballot,
	})
	if err != nil {
		return ClaimReply{}, fmt.Errorf("claim the mastership: %w", err)
	}
	leases, err := taskpb.FromLeases(reply.GetLeases())
	if err != nil {
		return ClaimReply{}, fmt.Errorf("claim the mastership: %w", err)
	}
	var pilots []dht.Member
	for _, p := range reply.GetPilots() {
		pilots = append(pilots, fromContact(p))
	}
	return ClaimReply{
		Pilots: pilots, Granted: reply.GetGranted(), Term: taskpb.FromTerm(reply.GetTerm()), Master: fromContact(reply.GetMaster()),
		Why: reply.GetWhy(), Leases: leases, Revoked: taskpb.FromRevokedList(reply.GetRevoked()),
		Settings: taskpb.FromSettings(reply.GetSettings()), Signature: reply.GetTermSignature(),
	}, nil
}

// Sync satisfies Queue.
func (q *grpcQueue) Sync(ctx context.Context, sync task.Sync) (task.SyncReply, error) {
	reply, err := q.client.Sync(ctx, taskpb.Sync(sync))
	if status.Code(err) == codes.FailedPrecondition {
		return task.SyncReply{}, fmt.Errorf("%w: %w", ErrStale, err)
	}
	if err != nil {
		return task.SyncReply{}, fmt.Errorf("sync with the queue: %w", err)
	}
	return taskpb.FromSyncReply(reply)
}

// Pull satisfies Queue.
func (q *grpcQueue) Pull(ctx context.Context, pull task.Pull) (task.PullReply, error) {
	reply, err := q.client.Pull(ctx, taskpb.Pull(pull))
	if err != nil {
		return task.PullReply{}, fmt.Errorf("pull from the queue: %w", err)
	}
	return taskpb.FromPullReply(reply)
}

// Deliver satisfies Queue.
func (q *grpcQueue) Deliver(ctx context.Context, outcomes []task.Outcome, stored []task.Stored) ([]task.Ack, error) {
	reply, err := q.client.DeliverOutcomes(ctx, &pb.DeliverOutcomesRequest{
		Site: string(q.site), Outcomes: taskpb.Outcomes(outcomes), Stored: taskpb.StoredList(stored),
	})
	if err != nil {
		return nil, fmt.Errorf("deliver outcomes: %w", err)
	}
	return taskpb.FromAcks(reply.GetAcks()), nil
}

// Unreachable satisfies Queue.
func (q *grpcQueue) Unreachable(ctx context.Context, reason string) (task.SiteSettings, error) {
	reply, err := q.client.ReportUnreachable(ctx, &pb.ReportUnreachableRequest{Site: string(q.site), Reason: reason})
	if err != nil {
		return task.SiteSettings{}, fmt.Errorf("report that no pilot is reached: %w", err)
	}
	return taskpb.FromSettings(reply.GetSettings()), nil
}

// Peers satisfies Queue.
func (q *grpcQueue) Peers(ctx context.Context) ([]dht.Member, error) {
	reply, err := q.client.ListPeers(ctx, &pb.ListPeersRequest{Site: string(q.site)})
	if err != nil {
		return nil, fmt.Errorf("ask for other pilots of the site: %w", err)
	}
	var peers []dht.Member
	for _, peer := range reply.GetPeers() {
		peers = append(peers, fromContact(peer))
	}
	return peers, nil
}

// Tried satisfies Queue.
func (q *grpcQueue) Tried(ctx context.Context, trial uint64, reached bool, reason string) (task.SiteSettings, error) {
	reply, err := q.client.ReportTrial(ctx, &pb.ReportTrialRequest{Site: string(q.site), Trial: trial, Reached: reached, Reason: reason})
	if err != nil {
		return task.SiteSettings{}, fmt.Errorf("report whether other pilots are reached: %w", err)
	}
	return taskpb.FromSettings(reply.GetSettings()), nil
}

// sendPiece is how much of a file goes with one message.
const sendPiece = 256 << 10

// Send satisfies Queue.
func (q *grpcQueue) Send(ctx context.Context, id string, content io.Reader, failure string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := q.client.SendFile(ctx)
	if err != nil {
		return fmt.Errorf("send a file: %w", err)
	}
	message := &pb.SendFileRequest{Id: id, Failure: failure}
	for {
		if err := stream.Send(message); err != nil { // the answer says why
			break
		}
		if failure != "" {
			break
		}
		piece := make([]byte, sendPiece)
		n, err := io.ReadFull(content, piece)
		if n > 0 {
			message = &pb.SendFileRequest{Data: piece[:n]}
			continue
		}
		if errors.Is(err, io.EOF) {
			break
		}
		return fmt.Errorf("send a file: %w", err) // breaks the call off
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		return fmt.Errorf("send a file: %w", err)
	}
	return nil
}

// Leave satisfies Queue.
func (q *grpcQueue) Leave(ctx context.Context, leaving Leaving) error {
	_, err := q.client.Leave(ctx, &pb.LeaveRequest{
		Site: string(q.site), Reason: leaving.Reason, Last: leaving.Last, Resigns: leaving.Resigns, Term: taskpb.Term(leaving.Term),
		Unfinished: leaving.Unfinished,
	})
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}
