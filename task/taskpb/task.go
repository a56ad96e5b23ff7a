package taskpb

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

// Task encodes a task.
func Task(t task.Task) *pb.Task {
	out := &pb.Task{
		Id: string(t.ID), Argv: t.Argv, Shell: t.Shell, Env: t.Env,
		Resources: Resources(t.Resources), Require: t.Require, Rank: t.Rank,
		Priority: int32(t.Priority), Retries: int32(t.Retries), Walltime: durationpb.New(t.Walltime),
		Bound: string(t.Bound), Queue: t.Queue, Container: t.Container,
	}
	for _, in := range t.Inputs {
		out.Inputs = append(out.Inputs, &pb.Binding{Lfn: string(in.LFN), Name: in.Name})
	}
	for _, o := range t.Outputs {
		out.Outputs = append(out.Outputs, &pb.Binding{Lfn: string(o.LFN), Name: o.Name})
	}
	return out
}

// FromTask decodes a task; task.Task.Validate checks its content.
func FromTask(in *pb.Task) (task.Task, error) {
	if in == nil {
		return task.Task{}, fmt.Errorf("task is missing")
	}
	t := task.Task{
		ID: task.ID(in.GetId()), Argv: in.GetArgv(), Shell: in.GetShell(), Env: in.GetEnv(),
		Resources: FromResources(in.GetResources()), Require: in.GetRequire(), Rank: in.GetRank(),
		Priority: int(in.GetPriority()), Retries: int(in.GetRetries()), Walltime: in.GetWalltime().AsDuration(),
		Bound: task.Bound(in.GetBound()), Queue: in.GetQueue(), Container: in.GetContainer(),
	}
	if n := len(in.GetInputs()); n > task.MaxInputs {
		return t, fmt.Errorf("task %s has %d inputs: at most %d", in.GetId(), n, task.MaxInputs)
	}
	if n := len(in.GetOutputs()); n > task.MaxOutputs {
		return t, fmt.Errorf("task %s has %d outputs: at most %d", in.GetId(), n, task.MaxOutputs)
	}
	for _, b := range in.GetInputs() {
		t.Inputs = append(t.Inputs, task.Input{LFN: task.LFN(b.GetLfn()), Name: b.GetName()})
	}
	for _, b := range in.GetOutputs() {
		t.Outputs = append(t.Outputs, task.Output{LFN: task.LFN(b.GetLfn()), Name: b.GetName()})
	}
	return t, nil
}

// Resources encodes resources.
func Resources(r task.Resources) *pb.Resources {
	return &pb.Resources{Cores: int32(r.Cores), MemoryBytes: int64(r.Memory), DiskBytes: int64(r.Disk), Gpus: int32(r.GPUs)}
}

// FromResources decodes resources; nil is none.
func FromResources(in *pb.Resources) task.Resources {
	return task.Resources{
		Cores: int(in.GetCores()), Memory: task.Bytes(in.GetMemoryBytes()), Disk: task.Bytes(in.GetDiskBytes()), GPUs: int(in.GetGpus()),
	}
}

// State encodes a task's state.
func State(s task.State) pb.TaskState { return pb.TaskState(s) }

// FromState decodes a task's state.
func FromState(in pb.TaskState) (task.State, error) {
	s := task.State(in)
	if s < task.Blocked || s > task.Quarantined {
		return 0, fmt.Errorf("unknown task state %d", in)
	}
	return s, nil
}

// AttemptID encodes an attempt's id; the zero id is nil.
func AttemptID(id task.AttemptID) *pb.AttemptId {
	if id.IsZero() {
		return nil
	}
	return &pb.AttemptId{
		Task: string(id.Task), Generation: id.Generation, Lease: uint64(id.Lease),
		Pilot: string(id.Pilot), Counter: id.Counter,
	}
}

// FromAttemptID decodes an attempt's id; nil is the zero id.
func FromAttemptID(in *pb.AttemptId) task.AttemptID {
	if in == nil {
		return task.AttemptID{}
	}
	return task.AttemptID{
		Task: task.ID(in.GetTask()), Generation: in.GetGeneration(), Lease: task.LeaseID(in.GetLease()),
		Pilot: task.PilotID(in.GetPilot()), Counter: in.GetCounter(),
	}
}

// File encodes a file.
func File(f task.File) *pb.File {
	out := &pb.File{
		Lfn: string(f.LFN), SizeBytes: int64(f.Size), Digest: Digest(f.Digest), Adler32: f.Adler32,
		Executable: f.Exec, Producer: AttemptID(f.Producer),
	}
	for _, site := range f.Announced {
		out.Announced = append(out.Announced, string(site))
	}
	for _, r := range f.Replicas {
		out.Replicas = append(out.Replicas, &pb.Replica{Site: string(r.Site), Url: r.URL})
	}
	return out
}

// FromFile decodes a file.
func FromFile(in *pb.File) (task.File, error) {
	digest, err := FromDigest(in.GetDigest())
	if err != nil {
		return task.File{}, fmt.Errorf("file %s: %w", in.GetLfn(), err)
	}
	f := task.File{
		LFN: task.LFN(in.GetLfn()), Size: task.Bytes(in.GetSizeBytes()), Digest: digest, Adler32: in.GetAdler32(),
		Exec: in.GetExecutable(), Producer: FromAttemptID(in.GetProducer()),
	}
	for _, site := range in.GetAnnounced() {
		f.Announced = append(f.Announced, task.Site(site))
	}
	for _, r := range in.GetReplicas() {
		f.Replicas = append(f.Replicas, task.Replica{Site: task.Site(r.GetSite()), URL: r.GetUrl()})
	}
	return f, nil
}

// Digest encodes a digest; the zero digest is empty.
func Digest(d task.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

// FromDigest decodes a digest; empty is the zero digest.
func FromDigest(in []byte) (task.Digest, error) {
	var d task.Digest
	if len(in) == 0 {
		return d, nil
	}
	if len(in) != len(d) {
		return d, fmt.Errorf("digest has %d bytes, want %d", len(in), len(d))
	}
	copy(d[:], in)
	return d, nil
}

// Time encodes a moment; the zero time is nil.
func Time(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// FromFiles decodes a list of files.
func FromFiles(list []*pb.File) ([]task.File, error) { return eachErr(list, FromFile) }

// FromTime decodes a moment; nil, and one outside of the years 1 to 9999, is
// the zero time.
func FromTime(in *timestamppb.Timestamp) time.Time {
	if !in.IsValid() {
		return time.Time{}
	}
	return in.AsTime()
}

// each translates a list.
func each[A, B any](list []A, translate func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, len(list))
	for i, item := range list {
		out[i] = translate(item)
	}
	return out
}

// eachErr translates a list, up to the first error.
func eachErr[A, B any](list []A, translate func(A) (B, error)) ([]B, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]B, len(list))
	for i, item := range list {
		var err error
		if out[i], err = translate(item); err != nil {
			return nil, err
		}
	}
	return out, nil
}
