package server

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// pilotHandlers serve PilotService.
type pilotHandlers struct {
	pb.UnimplementedPilotServiceServer
	server *Server
}

// Register makes a pilot a member of its site.
func (h *pilotHandlers) Register(ctx context.Context, in *pb.RegisterRequest) (*pb.RegisterResponse, error) {
	now := time.Now()
	if err := checkRegistration(in, now); err != nil {
		return nil, err
	}
	public := ed25519.PublicKey(in.GetPublicKey())
	peer, err := identity.PeerOf(public)
	if err != nil {
		return nil, invalid("public_key: %w", err)
	}
	if err := identity.VerifyRegistration(public, task.Site(in.GetSite()), in.GetProof()); err != nil {
		return nil, invalid("%w", err)
	}
	out, err := changed(ctx, h.server.turns, func(t *taskqueue.Turn) (taskqueue.Registered, error) {
		return h.server.turns.rules.Register(t, taskqueue.Registration{
			Site: task.Site(in.GetSite()), Peer: peer, Check: in.GetCheck(), Overlay: in.GetOverlayProtocol(),
			PilotDescription: taskqueue.PilotDescription{
				Addresses: in.GetAddresses(), DataURL: in.GetDataUrl(), Host: in.GetHost(),
				Resources: taskpb.FromResources(in.GetResources()), Slots: int(in.GetSlots()), Features: in.GetFeatures(),
				Walls: taskpb.Walls(in), Version: in.GetVersion(), Ends: taskpb.FromTime(in.GetEnds()),
				Token: callerOf(ctx).token, BatchJob: in.GetBatchJob(),
			},
		})
	})
	if err != nil {
		return nil, err
	}
	if out.Wait != "" {
		return nil, fmt.Errorf("%s: %w", out.Wait, errOldPilots)
	}
	until := out.NotAfter
	if end := h.server.access.authority.NotAfter(); until.After(end) {
		until = end
	}
	certificate, err := h.server.access.authority.IssueMember(identity.Member{
		Site: task.Site(in.GetSite()), Pilot: out.Pilot, Peer: peer, NotAfter: until,
	}, public, now)
	if err != nil {
		return nil, err
	}
	out.Settings.Secrets = h.server.secrets.of(task.Site(in.GetSite()))
	reply := &pb.RegisterResponse{
		PilotId: string(out.Pilot), MembershipCertificate: certificate, Master: contactOf(out.Master), Term: taskpb.Term(out.Term),
		Settings: taskpb.Settings(out.Settings), Now: timestamppb.New(now), Authorities: h.server.access.authorityPEM,
	}
	if reply.TermSignature, err = h.server.access.signTerm(task.Site(in.GetSite()), out.Term); err != nil {
		return nil, err
	}
	for _, contact := range out.Contacts {
		reply.Contacts = append(reply.Contacts, contactOf(contact))
	}
	for _, denied := range out.Denied {
		reply.DeniedPeers = append(reply.DeniedPeers, string(denied))
	}
	return reply, nil
}

// ClaimMastership decides on a claim for a site's next term.
func (h *pilotHandlers) ClaimMastership(ctx context.Context, in *pb.ClaimMastershipRequest) (*pb.ClaimMastershipResponse, error) {
	c := callerOf(ctx)
	result, err := h.server.masters.claim(ctx, taskqueue.Claim{
		Site: c.site, Pilot: c.pilot, Expected: taskpb.FromTerm(in.GetExpected()), Signed: h.server.facts.granted(c, in),
		Resigned: h.server.facts.resigned(c, in), Ballot: in.GetBallot(),
	})
	if err != nil {
		return nil, err
	}
	result.Settings.Secrets = h.server.secrets.of(c.site)
	reply := &pb.ClaimMastershipResponse{
		Granted: result.Granted, Term: taskpb.Term(result.Term), Master: contactOf(result.Master), Why: result.Why,
		Leases: taskpb.Leases(result.Leases), Revoked: taskpb.RevokedList(result.Revoked),
		Settings: taskpb.Settings(result.Settings),
	}
	if reply.TermSignature, err = h.server.access.signTerm(c.site, result.Term); err != nil {
		return nil, err
	}
	for _, p := range result.Pilots {
		reply.Pilots = append(reply.Pilots, contactOf(p))
	}
	return reply, nil
}

// Pull takes what a pilot tells that is its own master and answers with what
// there is for it.
func (h *pilotHandlers) Pull(ctx context.Context, in *pb.PullRequest) (*pb.PullResponse, error) {
	c := callerOf(ctx)
	signed, refused := h.server.facts.outcomes(c, in.GetSync().GetOutcomes(), in.GetSync().GetSeals())
	if in.GetSync() != nil {
		in.Sync.Outcomes, in.Sync.Seals = signed, nil
	}
	told, err := taskpb.FromPull(in, c.pilot)
	if err != nil {
		return nil, invalid("%w", err)
	}
	if err := checkPull(&told); err != nil {
		return nil, err
	}
	reply, err := h.server.masters.pull(ctx, c, told)
	if err != nil {
		return nil, err
	}
	reply.Settings.Secrets = h.server.secrets.of(c.site)
	out := taskpb.PullReply(reply)
	out.Sync.Acks = append(out.Sync.Acks, refused...)
	return out, nil
}

// Sync takes what a master tells and answers with what there is for it.
func (h *pilotHandlers) Sync(ctx context.Context, in *pb.SyncRequest) (*pb.SyncResponse, error) {
	c := callerOf(ctx)
	signed, refused := h.server.facts.outcomes(c, in.GetOutcomes(), in.GetSeals())
	in.Outcomes, in.Seals = signed, nil
	told, err := taskpb.FromSync(in, c.pilot)
	if err != nil {
		return nil, invalid("%w", err)
	}
	if len(refused) > 0 {
		told.Hold = 0
	}
	if err := checkSync(&told); err != nil {
		return nil, err
	}
	reply, err := h.server.masters.sync(ctx, c, told)
	if err != nil {
		return nil, err
	}
	reply.Settings.Secrets = h.server.secrets.of(c.site)
	out := taskpb.SyncReply(reply)
	out.Acks = append(out.Acks, refused...)
	return out, nil
}

// DeliverOutcomes takes outcomes from any pilot of a site.
func (h *pilotHandlers) DeliverOutcomes(ctx context.Context, in *pb.DeliverOutcomesRequest) (*pb.DeliverOutcomesResponse, error) {
	c := callerOf(ctx)
	delivery := taskqueue.Delivery{Site: c.site, Pilot: c.pilot}
	var err error
	signed, refused := h.server.facts.outcomes(c, in.GetOutcomes(), in.GetSeals())
	if delivery.Outcomes, err = taskpb.FromOutcomes(signed); err != nil {
		return nil, invalid("%w", err)
	}
	if delivery.Stored, err = taskpb.FromStoredList(in.GetStored()); err != nil {
		return nil, invalid("%w", err)
	}
	if err := checkStored(delivery.Stored); err != nil {
		return nil, err
	}
	acks, err := changed(ctx, h.server.turns, func(t *taskqueue.Turn) ([]task.Ack, error) { return h.server.turns.rules.Deliver(t, delivery) })
	if err != nil {
		return nil, err
	}
	h.server.shown.attempts(c.site, nil, delivery.Outcomes, delivery.Stored, acks)
	return &pb.DeliverOutcomesResponse{Acks: append(taskpb.Acks(acks), refused...)}, nil
}

// ReportUnreachable takes a pilot's word that its site's network does not
// carry.
func (h *pilotHandlers) ReportUnreachable(ctx context.Context, in *pb.ReportUnreachableRequest) (*pb.ReportUnreachableResponse, error) {
	c := callerOf(ctx)
	if err := checkText("reason", in.GetReason(), maxText); err != nil {
		return nil, err
	}
	settings, err := changed(ctx, h.server.turns, func(t *taskqueue.Turn) (task.SiteSettings, error) {
		return h.server.turns.rules.Unreachable(t, taskqueue.Unreachable{Site: c.site, Pilot: c.pilot, Reason: in.GetReason()})
	})
	if err != nil {
		return nil, err
	}
	settings.Secrets = h.server.secrets.of(c.site)
	return &pb.ReportUnreachableResponse{Settings: taskpb.Settings(settings)}, nil
}

// ListPeers names some other live pilots of the caller's site.
func (h *pilotHandlers) ListPeers(ctx context.Context, in *pb.ListPeersRequest) (*pb.ListPeersResponse, error) {
	c := callerOf(ctx)
	peers, err := changed(ctx, h.server.turns, func(t *taskqueue.Turn) ([]taskqueue.Contact, error) { return h.server.turns.rules.Peers(t, c.pilot) })
	if err != nil {
		return nil, err
	}
	reply := &pb.ListPeersResponse{}
	for _, peer := range peers {
		reply.Peers = append(reply.Peers, contactOf(peer))
	}
	return reply, nil
}

// ReportTrial takes a pilot's answer to the trial of a site that has fallen back.
func (h *pilotHandlers) ReportTrial(ctx context.Context, in *pb.ReportTrialRequest) (*pb.ReportTrialResponse, error) {
	c := callerOf(ctx)
	if err := checkText("reason", in.GetReason(), maxText); err != nil {
		return nil, err
	}
	settings, err := changed(ctx, h.server.turns, func(t *taskqueue.Turn) (task.SiteSettings, error) {
		return h.server.turns.rules.Tried(t, taskqueue.Tried{
			Site: c.site, Pilot: c.pilot, Trial: in.GetTrial(), Reached: in.GetReached(), Reason: in.GetReason(),
		})
	})
	if err != nil {
		return nil, err
	}
	settings.Secrets = h.server.secrets.of(c.site)
	return &pb.ReportTrialResponse{Settings: taskpb.Settings(settings)}, nil
}

// Leave books a pilot that goes by itself.
func (h *pilotHandlers) Leave(ctx context.Context, in *pb.LeaveRequest) (*pb.LeaveResponse, error) {
	c := callerOf(ctx)
	if err := checkText("reason", in.GetReason(), maxText); err != nil {
		return nil, err
	}
	err := h.server.turns.update(ctx, func(t *taskqueue.Turn) error {
		return h.server.turns.rules.Leave(t, taskqueue.Leaving{
			Pilot: c.pilot, Site: c.site, Reason: in.GetReason(), Resigns: in.GetResigns(), Term: taskpb.FromTerm(in.GetTerm()),
			Unfinished: in.GetUnfinished(),
		})
	})
	if err != nil {
		return nil, err
	}
	return &pb.LeaveResponse{}, nil
}

// DrainPilot lets a pilot finish what runs and leave.
func (h *pilotHandlers) DrainPilot(ctx context.Context, in *pb.DrainPilotRequest) (*pb.DrainPilotResponse, error) {
	id, err := pilotID(in.GetPilotId())
	if err != nil {
		return nil, err
	}
	return &pb.DrainPilotResponse{}, h.server.turns.update(ctx, func(t *taskqueue.Turn) error {
		taskqueue.Check(callerOf(ctx).ofPilot(t, id))
		return h.server.turns.rules.DrainPilot(t, id)
	})
}

func pilotID(text string) (task.PilotID, error) {
	id, err := task.ParsePilotID(text)
	if err != nil {
		return "", invalid("%w", err)
	}
	return id, nil
}

// GetPilot returns one pilot.
func (h *pilotHandlers) GetPilot(ctx context.Context, in *pb.GetPilotRequest) (*pb.GetPilotResponse, error) {
	id, err := pilotID(in.GetPilotId())
	if err != nil {
		return nil, err
	}
	out := &pb.GetPilotResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		found := taskqueue.Read(t.Pilots().Load(id))
		if len(found) == 0 {
			return taskqueue.NotFound("pilot", id)
		}
		out.Pilot = describePilots(t, callerOf(ctx), mastersOf(t), found)[0]
		return nil
	})
}

// ListPilots lists pilots by id.
func (h *pilotHandlers) ListPilots(ctx context.Context, in *pb.ListPilotsRequest) (*pb.ListPilotsResponse, error) {
	size, after, err := pageAsked("pilots", in)
	if err != nil {
		return nil, err
	}
	var states []taskqueue.PilotState
	if !in.GetAll() {
		states = []taskqueue.PilotState{taskqueue.PilotAlive, taskqueue.PilotDraining}
	}
	out := &pb.ListPilotsResponse{}
	return out, h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		if in.GetSite() != "" {
			taskqueue.Read(loadSite(t, in.GetSite()))
		}
		ids := taskqueue.Read(t.Pilots().IDsOfSite(task.Site(in.GetSite()), states...))
		at, shown := slices.BinarySearch(ids, task.PilotID(after))
		if shown {
			at++
		}
		masters := mastersOf(t)
		room := pageRoom{entries: size}
		for part := range slices.Chunk(ids[at:min(len(ids), at+size+1)], loadedAtOnce) {
			found := taskqueue.Read(t.Pilots().Load(part...))
			list := describePilots(t, callerOf(ctx), masters, found)
			for _, p := range list {
				if !room.takes(p) {
					out.NextPageToken = pageToken("pilots", after)
					return nil
				}
				out.Pilots, after = append(out.Pilots, p), p.GetContact().GetPilot()
			}
		}
		return nil
	})
}

// describePilots adds what runs at pilots and which of them are masters. How an attempt
// failed, which names files and programs of its owner, only those learn who look after
// the site, or at everything.
func describePilots(t *taskqueue.Turn, c caller, masters map[task.PilotID]bool, pilots []taskqueue.PilotRecord) []*pb.Pilot {
	list := make([]*pb.Pilot, len(pilots))
	for i := range pilots {
		p := &pilots[i]
		running := taskqueue.Read(t.Attempts().RunningAt(p.ID))
		list[i] = pilotOf(p, len(running), p.State.Present() && masters[p.ID])
		if !c.looksAfter(p.Site) {
			list[i].LastError = ""
			if p.Stopped != "" {
				list[i].Stopped = forOperators
			}
		}
	}
	return list
}

// mastersOf are the pilots that hold the offices of all sites.
func mastersOf(t *taskqueue.Turn) map[task.PilotID]bool {
	sites := taskqueue.Read(t.Sites().All())
	masters := make(map[task.PilotID]bool)
	for i := range sites {
		masters[sites[i].Master] = !sites[i].Resigned
	}
	return masters
}
