package taskpb

import (
	"math"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

// Sync encodes a master's call.
func Sync(s task.Sync) *pb.SyncRequest {
	return &pb.SyncRequest{
		Site: string(s.Site), Term: Term(s.Term),
		Leases:     each(s.Leases, func(id task.LeaseID) uint64 { return uint64(id) }),
		LeaseTasks: each(s.Tasks, func(n int) uint32 { return uint32(n) }), InHand: each(s.InHand, AttemptID),
		Capacity: capacity(s.Capacity), Outcomes: Outcomes(s.Outcomes), Seals: each(s.Seals, seal),
		Starts: Starts(s.Starts), Returns: each(s.Returns, returned), Stored: StoredList(s.Stored),
		Lost: each(s.Lost, lostFile), Departed: each(s.Departed, departure), Joined: each(s.Joined, func(p task.PilotID) string { return string(p) }), Refused: each(s.Refused, refusal),
		Confirmed: each(s.Confirmed, revoked), ReportSeq: s.Report.Seq,
		StorageReads: StorageReads(s.Report.SEReads), Hold: durationpb.New(s.Hold), Pauses: each(s.Pauses, pause),
		Nodes: each(s.Nodes, nodeMark), Judges: s.Judges,
		Replicas: s.Report.Replicas.Files, ReplicaBytes: uint64(max(0, s.Report.Replicas.Bytes)), Number: s.Number,
	}
}

// FromSync decodes a master's call. The pilot is known from the connection.
func FromSync(in *pb.SyncRequest, pilot task.PilotID) (task.Sync, error) {
	s := task.Sync{
		Site: task.Site(in.GetSite()), Term: FromTerm(in.GetTerm()), Pilot: pilot,
		Leases:   each(in.GetLeases(), func(id uint64) task.LeaseID { return task.LeaseID(id) }),
		Tasks:    each(in.GetLeaseTasks(), func(n uint32) int { return int(n) }),
		Capacity: fromCapacity(in.GetCapacity()),
		Starts:   FromStarts(in.GetStarts()), Returns: each(in.GetReturns(), fromReturned),
		Departed: each(in.GetDeparted(), fromDeparture), Refused: each(in.GetRefused(), fromRefusal),
		Confirmed: each(in.GetConfirmed(), fromRevoked),
		Report: task.SiteReport{
			Seq: in.GetReportSeq(), SEReads: FromStorageReads(in.GetStorageReads()),
			Replicas: task.ReplicaSum{Files: in.GetReplicas(), Bytes: task.Bytes(min(in.GetReplicaBytes(), math.MaxInt64))},
		},
		Hold: in.GetHold().AsDuration(), Number: in.GetNumber(), Pauses: each(in.GetPauses(), fromPause),
		Census: task.Census{
			Joined: each(in.GetJoined(), func(p string) task.PilotID { return task.PilotID(p) }), InHand: each(in.GetInHand(), FromAttemptID),
		},
		NodeHealth: task.NodeHealth{Nodes: each(in.GetNodes(), fromNodeMark), Judges: in.GetJudges()},
	}
	var err error
	if s.Outcomes, err = FromOutcomes(in.GetOutcomes()); err != nil {
		return s, err
	}
	if s.Seals, err = eachErr(in.GetSeals(), FromSeal); err != nil {
		return s, err
	}
	if s.Stored, err = FromStoredList(in.GetStored()); err != nil {
		return s, err
	}
	s.Lost, err = eachErr(in.GetLost(), fromLostFile)
	return s, err
}

// SyncReply encodes the queue's answer.
func SyncReply(r task.SyncReply) *pb.SyncResponse {
	return &pb.SyncResponse{
		Leases:        each(r.Leases, Lease),
		UnknownLeases: each(r.Unknown, func(id task.LeaseID) uint64 { return uint64(id) }),
		Revoked:       RevokedList(r.Revoked), Acks: Acks(r.Acks),
		DeniedPeers: each(r.Denied, func(p task.PeerID) string { return string(p) }), DeniedSignature: r.DeniedSignature,
		DrainPilots: each(r.Drain, func(p task.PilotID) string { return string(p) }),
		Settings:    Settings(r.Settings), ReportSeq: r.ReportSeq, Check: each(r.Check, File), Drop: each(r.Drop, File), Nodes: each(r.Nodes, nodeMark), Roll: r.Roll,
		Wanted: each(r.Wanted, func(w task.WantedFile) *pb.WantedFile { return &pb.WantedFile{Id: w.ID, File: File(w.File)} }),
	}
}

// FromSyncReply decodes the queue's answer.
func FromSyncReply(in *pb.SyncResponse) (task.SyncReply, error) {
	r := task.SyncReply{
		Unknown: each(in.GetUnknownLeases(), func(id uint64) task.LeaseID { return task.LeaseID(id) }),
		Revoked: FromRevokedList(in.GetRevoked()), Acks: FromAcks(in.GetAcks()),
		Denied: each(in.GetDeniedPeers(), func(p string) task.PeerID { return task.PeerID(p) }), DeniedSignature: in.GetDeniedSignature(),
		Drain:    each(in.GetDrainPilots(), func(p string) task.PilotID { return task.PilotID(p) }),
		Settings: FromSettings(in.GetSettings()), ReportSeq: in.GetReportSeq(),
		Nodes: each(in.GetNodes(), fromNodeMark), Roll: in.GetRoll(),
	}
	var err error
	if r.Leases, err = FromLeases(in.GetLeases()); err != nil {
		return r, err
	}
	if r.Check, err = eachErr(in.GetCheck(), FromFile); err != nil {
		return r, err
	}
	if r.Drop, err = eachErr(in.GetDrop(), FromFile); err != nil {
		return r, err
	}
	r.Wanted, err = eachErr(in.GetWanted(), func(in *pb.WantedFile) (w task.WantedFile, err error) {
		w.ID = in.GetId()
		w.File, err = FromFile(in.GetFile())
		return w, err
	})
	return r, err
}

func nodeMark(n task.NodeMark) *pb.NodeMark {
	return &pb.NodeMark{
		Name: n.Name, Failed: uint32(n.Failed), Pauses: uint32(n.Pauses), Left: durationpb.New(n.Left), Why: n.Why,
	}
}

func fromNodeMark(in *pb.NodeMark) task.NodeMark {
	return task.NodeMark{
		Name: in.GetName(), Failed: int(in.GetFailed()), Pauses: int(in.GetPauses()), Left: in.GetLeft().AsDuration(), Why: in.GetWhy(),
	}
}

// Term encodes a term.
func Term(t task.Term) *pb.Term {
	return &pb.Term{Epoch: t.Epoch, Ballot: t.Ballot, Peer: string(t.Peer)}
}

// FromTerm decodes a term; nil is the zero term.
func FromTerm(in *pb.Term) task.Term {
	return task.Term{Epoch: in.GetEpoch(), Ballot: in.GetBallot(), Peer: task.PeerID(in.GetPeer())}
}

// Lease encodes a hand-out.
func Lease(l task.Lease) *pb.Lease {
	return &pb.Lease{
		Id: uint64(l.ID), Ttl: durationpb.New(l.TTL), Files: each(l.Files, File),
		Tasks: each(l.Tasks, func(t task.LeasedTask) *pb.LeasedTask {
			return &pb.LeasedTask{
				Task: Task(t.Task), Generation: t.Generation, Number: int32(t.Number), Age: t.Age, Blocked: t.Blocked, Avoid: t.Avoid,
			}
		}),
	}
}

// Leases encodes hand-outs.
func Leases(list []task.Lease) []*pb.Lease { return each(list, Lease) }

// FromLeases decodes hand-outs.
func FromLeases(in []*pb.Lease) ([]task.Lease, error) { return eachErr(in, fromLease) }

func fromLease(in *pb.Lease) (task.Lease, error) {
	l := task.Lease{ID: task.LeaseID(in.GetId()), TTL: in.GetTtl().AsDuration()}
	var err error
	if l.Files, err = eachErr(in.GetFiles(), FromFile); err != nil {
		return l, err
	}
	l.Tasks, err = eachErr(in.GetTasks(), func(t *pb.LeasedTask) (task.LeasedTask, error) {
		described, err := FromTask(t.GetTask())
		return task.LeasedTask{
			Task: described, Generation: t.GetGeneration(), Number: int(t.GetNumber()), Age: t.GetAge(), Blocked: t.GetBlocked(), Avoid: t.GetAvoid(),
		}, err
	})
	return l, err
}

// Settings encodes a site's settings as pilots see them.
func Settings(s task.SiteSettings) *pb.SiteSettings {
	return &pb.SiteSettings{
		Name: string(s.Site), StorageUrl: s.SE, RemoteRead: s.RemoteRead, Mode: Mode(s.Mode), ModeSince: s.ModeSince, Draining: s.Draining,
		RoundPeriod: durationpb.New(s.RoundEvery), Prefill: proto.Int32(int32(s.Prefill)),
		Solver: s.Solver, Rank: s.Rank, Replicate: s.Replicate, LocalityWait: durationpb.New(s.LocalityWait),
		Trial: s.Trial, StorageCredentials: each(s.Secrets.Credentials(), storageCredential),
	}
}

func storageCredential(c task.StorageCredential) *pb.StorageCredential {
	return &pb.StorageCredential{Url: c.URL, Token: c.Token, Certificate: c.Certificate, Key: c.Key, Authorities: c.Authorities}
}

func fromStorageCredential(in *pb.StorageCredential) task.StorageCredential {
	return task.StorageCredential{
		URL: in.GetUrl(), Token: in.GetToken(), Certificate: in.GetCertificate(), Key: in.GetKey(), Authorities: in.GetAuthorities(),
	}
}

// FromSettings decodes a site's settings.
func FromSettings(in *pb.SiteSettings) task.SiteSettings {
	return task.SiteSettings{
		Site: task.Site(in.GetName()), SE: in.GetStorageUrl(), RemoteRead: in.GetRemoteRead(), Mode: FromMode(in.GetMode()), ModeSince: in.GetModeSince(),
		Draining: in.GetDraining(), Trial: in.GetTrial(), Secrets: task.SealStorage(each(in.GetStorageCredentials(), fromStorageCredential)),
		SiteScheduling: task.SiteScheduling{
			RoundEvery: in.GetRoundPeriod().AsDuration(), Prefill: int(in.GetPrefill()), Solver: in.GetSolver(), Rank: in.GetRank(),
			Replicate: in.GetReplicate(), LocalityWait: in.GetLocalityWait().AsDuration(),
		},
	}
}

var modes = map[string]pb.SiteMode{
	"distributed": pb.SiteMode_SITE_MODE_DISTRIBUTED,
	"centralized": pb.SiteMode_SITE_MODE_CENTRALIZED,
	"isolated":    pb.SiteMode_SITE_MODE_ISOLATED,
}

// Mode encodes a site's mode.
func Mode(mode string) pb.SiteMode { return modes[mode] }

// FromMode decodes a site's mode; an unknown one is "".
func FromMode(in pb.SiteMode) string {
	for name, mode := range modes {
		if mode == in {
			return name
		}
	}
	return ""
}

// Acks encodes verdicts.
func Acks(list []task.Ack) []*pb.Ack {
	return each(list, func(a task.Ack) *pb.Ack {
		return &pb.Ack{Attempt: AttemptID(a.Attempt), Verdict: pb.AckVerdict(a.Verdict), Winner: AttemptID(a.Winner)}
	})
}

// FromAcks decodes verdicts.
func FromAcks(in []*pb.Ack) []task.Ack {
	return each(in, func(a *pb.Ack) task.Ack {
		return task.Ack{Attempt: FromAttemptID(a.GetAttempt()), Verdict: task.AckVerdict(a.GetVerdict()), Winner: FromAttemptID(a.GetWinner())}
	})
}

// StoredList encodes files that reached a storage element.
func StoredList(list []task.Stored) []*pb.Stored {
	return each(list, func(s task.Stored) *pb.Stored {
		return &pb.Stored{Lfn: string(s.LFN), Attempt: AttemptID(s.Attempt), Url: s.URL, SizeBytes: int64(s.Size), Digest: Digest(s.Digest)}
	})
}

// FromStoredList decodes files that reached a storage element.
func FromStoredList(in []*pb.Stored) ([]task.Stored, error) {
	return eachErr(in, func(s *pb.Stored) (task.Stored, error) {
		digest, err := FromDigest(s.GetDigest())
		return task.Stored{
			LFN: task.LFN(s.GetLfn()), Attempt: FromAttemptID(s.GetAttempt()), URL: s.GetUrl(),
			Size: task.Bytes(s.GetSizeBytes()), Digest: digest,
		}, err
	})
}

// RevokedList encodes revocations.
func RevokedList(list []task.Revoked) []*pb.Revoked { return each(list, revoked) }

// FromRevokedList decodes revocations.
func FromRevokedList(in []*pb.Revoked) []task.Revoked { return each(in, fromRevoked) }

func revoked(r task.Revoked) *pb.Revoked {
	return &pb.Revoked{Lease: uint64(r.Lease), Task: string(r.Task), Cancel: r.Cancel}
}

func fromRevoked(in *pb.Revoked) task.Revoked {
	return task.Revoked{Lease: task.LeaseID(in.GetLease()), Task: task.ID(in.GetTask()), Cancel: in.GetCancel()}
}

func capacity(c task.Capacity) *pb.Capacity {
	return &pb.Capacity{
		Pilots: int32(c.Pilots), Slots: int32(c.Slots), FreeSlots: int32(c.FreeSlots), Assigned: int32(c.Assigned),
		Running: int32(c.Running), Waiting: int32(c.Waiting), CacheBytes: uint64(c.CacheBytes),
		CacheUsedBytes: uint64(c.CacheUsed), Evictions: c.Evictions, Damaged: c.Damaged,
		Stopped: int32(c.Stopped), StoppedSlots: int32(c.StoppedSlots), StoppedWhy: c.StoppedWhy,
	}
}

func fromCapacity(in *pb.Capacity) task.Capacity {
	return task.Capacity{
		Pilots: int(in.GetPilots()), Slots: int(in.GetSlots()), FreeSlots: int(in.GetFreeSlots()), Assigned: int(in.GetAssigned()),
		Running: int(in.GetRunning()), Waiting: int(in.GetWaiting()), CacheBytes: task.Bytes(in.GetCacheBytes()),
		CacheUsed: task.Bytes(in.GetCacheUsedBytes()), Evictions: in.GetEvictions(), Damaged: in.GetDamaged(),
		Stopped: int(in.GetStopped()), StoppedSlots: int(in.GetStoppedSlots()), StoppedWhy: in.GetStoppedWhy(),
	}
}

// Starts encodes the starts of payloads.
func Starts(list []task.Start) []*pb.Start { return each(list, start) }

// FromStarts decodes the starts of payloads.
func FromStarts(in []*pb.Start) []task.Start { return each(in, fromStart) }

func start(s task.Start) *pb.Start {
	return &pb.Start{Attempt: AttemptID(s.Attempt), Number: int32(s.Number), Started: Time(s.Started), Process: int32(s.Process)}
}

func fromStart(in *pb.Start) task.Start {
	return task.Start{Attempt: FromAttemptID(in.GetAttempt()), Number: int(in.GetNumber()), Started: FromTime(in.GetStarted()), Process: int(in.GetProcess())}
}

func returned(r task.Returned) *pb.Return {
	return &pb.Return{Task: string(r.Task), Generation: r.Generation, Lease: uint64(r.Lease), Reason: r.Reason, Unread: r.Unread}
}

func fromReturned(in *pb.Return) task.Returned {
	return task.Returned{Task: task.ID(in.GetTask()), Generation: in.GetGeneration(), Lease: task.LeaseID(in.GetLease()), Reason: in.GetReason(), Unread: in.GetUnread()}
}

func lostFile(l task.LostFile) *pb.LostFile {
	return &pb.LostFile{Lfn: string(l.LFN), Digest: Digest(l.Digest), Url: l.URL, Pilot: string(l.Pilot), Reason: l.Reason}
}

func fromLostFile(in *pb.LostFile) (task.LostFile, error) {
	digest, err := FromDigest(in.GetDigest())
	return task.LostFile{LFN: task.LFN(in.GetLfn()), Digest: digest, URL: in.GetUrl(), Pilot: task.PilotID(in.GetPilot()), Reason: in.GetReason()}, err
}

func pause(p task.Pause) *pb.Pause { return &pb.Pause{Pilot: string(p.Pilot), Why: p.Why} }

func fromPause(in *pb.Pause) task.Pause {
	return task.Pause{Pilot: task.PilotID(in.GetPilot()), Why: in.GetWhy()}
}

func departure(d task.Departure) *pb.Departure {
	return &pb.Departure{Pilot: string(d.Pilot), Dead: d.Dead, Reason: d.Reason}
}

func fromDeparture(in *pb.Departure) task.Departure {
	return task.Departure{Pilot: task.PilotID(in.GetPilot()), Dead: in.GetDead(), Reason: in.GetReason()}
}

func refusal(r task.Refusal) *pb.Refusal {
	return &pb.Refusal{
		Require: r.Class.Require, Rank: r.Class.Rank, Resources: Resources(r.Class.Resources),
		Pilots: int32(r.Pilots), Clauses: Clauses(r.Clauses),
	}
}

func fromRefusal(in *pb.Refusal) task.Refusal {
	return task.Refusal{
		Class:  task.Class{Require: in.GetRequire(), Rank: in.GetRank(), Resources: FromResources(in.GetResources())},
		Pilots: int(in.GetPilots()), Clauses: FromClauses(in.GetClauses()),
	}
}

// Clauses encodes counts of failing clauses.
func Clauses(list []task.ClauseCount) []*pb.ClauseCount {
	return each(list, func(c task.ClauseCount) *pb.ClauseCount {
		return &pb.ClauseCount{Clause: c.Clause, Pilots: int32(c.Pilots)}
	})
}

// FromClauses decodes counts of failing clauses.
func FromClauses(in []*pb.ClauseCount) []task.ClauseCount {
	return each(in, func(c *pb.ClauseCount) task.ClauseCount {
		return task.ClauseCount{Clause: c.GetClause(), Pilots: int(c.GetPilots())}
	})
}

// StorageReads encodes sums of reads from storage elements.
func StorageReads(list []task.SERead) []*pb.StorageReads { return each(list, seRead) }

// FromStorageReads decodes sums of reads from storage elements.
func FromStorageReads(in []*pb.StorageReads) []task.SERead { return each(in, fromSERead) }

func seRead(r task.SERead) *pb.StorageReads {
	return &pb.StorageReads{Owner: string(r.Owner), Files: r.Files, Bytes: uint64(r.Bytes)}
}

func fromSERead(in *pb.StorageReads) task.SERead {
	return task.SERead{Owner: task.Site(in.GetOwner()), Files: in.GetFiles(), Bytes: task.Bytes(in.GetBytes())}
}
