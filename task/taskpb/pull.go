package taskpb

import (
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

// Pull encodes the call of a pilot that is its own master.
func Pull(p task.Pull) *pb.PullRequest {
	return &pb.PullRequest{
		Sync: Sync(p.Sync), Arch: p.Self.Arch, Os: p.Self.OS, Load: p.Self.Load, Lifetime: durationpb.New(p.Self.Lifetime),
		CoreSpeed: p.Self.CoreSpeed, FreeCores: int32(p.Self.FreeCores), CpuBound: int32(p.Self.CPUBound), IoBound: int32(p.Self.IOBound),
		Free: Resources(p.Places.Free), FreeSlots: int32(p.Places.FreeSlots), Prefill: int32(p.Places.Prefill), Ending: Resources(p.Places.Ending),
		Holding: each(p.Holding, func(h task.Holding) *pb.Holding {
			return &pb.Holding{Task: string(h.Task), Lease: uint64(h.Lease), Started: h.Started}
		}),
		Cache: &pb.CacheDelta{
			Base: p.Cache.Base, Version: p.Cache.Version, Partial: p.Cache.Partial,
			Added: prints(p.Cache.Added), Removed: prints(p.Cache.Removed),
		},
	}
}

// FromPull decodes the call of a pilot that is its own master. The pilot is
// known from the connection.
func FromPull(in *pb.PullRequest, pilot task.PilotID) (task.Pull, error) {
	sync, err := FromSync(in.GetSync(), pilot)
	if err != nil {
		return task.Pull{}, err
	}
	return task.Pull{
		Sync: sync,
		Self: task.Puller{
			Arch: in.GetArch(), OS: in.GetOs(), Load: in.GetLoad(), Lifetime: in.GetLifetime().AsDuration(),
			CoreSpeed: in.GetCoreSpeed(), FreeCores: int(in.GetFreeCores()), CPUBound: int(in.GetCpuBound()), IOBound: int(in.GetIoBound()),
		},
		Places: task.Places{Free: FromResources(in.GetFree()), FreeSlots: int(in.GetFreeSlots()), Prefill: int(in.GetPrefill()), Ending: FromResources(in.GetEnding())},
		Holding: each(in.GetHolding(), func(h *pb.Holding) task.Holding {
			return task.Holding{Task: task.ID(h.GetTask()), Lease: task.LeaseID(h.GetLease()), Started: h.GetStarted()}
		}),
		Cache: task.CacheDelta{
			Base: in.GetCache().GetBase(), Version: in.GetCache().GetVersion(), Partial: in.GetCache().GetPartial(),
			Added: fromPrints(in.GetCache().GetAdded()), Removed: fromPrints(in.GetCache().GetRemoved()),
		},
	}, nil
}

// PullReply encodes the queue's answer.
func PullReply(r task.PullReply) *pb.PullResponse {
	return &pb.PullResponse{Sync: SyncReply(r.SyncReply), CacheVersion: r.CacheVersion, Deposed: r.Deposed}
}

// FromPullReply decodes the queue's answer.
func FromPullReply(in *pb.PullResponse) (task.PullReply, error) {
	sync, err := FromSyncReply(in.GetSync())
	return task.PullReply{SyncReply: sync, CacheVersion: in.GetCacheVersion(), Deposed: in.GetDeposed()}, err
}

func prints(list []task.FilePrint) []uint64 {
	return each(list, func(p task.FilePrint) uint64 { return uint64(p) })
}

func fromPrints(list []uint64) []task.FilePrint {
	return each(list, func(p uint64) task.FilePrint { return task.FilePrint(p) })
}
