package taskpb

import (
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

// Outcome encodes an outcome.
func Outcome(o task.Outcome) *pb.Outcome {
	out := &pb.Outcome{
		Attempt: AttemptID(o.Attempt), Number: int32(o.Number), Site: string(o.Site), Ok: o.OK,
		Failure: pb.FailureKind(o.Failure), Reason: o.Reason, ExitCode: int32(o.ExitCode), Signal: o.Signal,
		UserCpu: durationpb.New(o.Usage.UserCPU), SystemCpu: durationpb.New(o.Usage.SystemCPU),
		MaxMemoryBytes: int64(o.Usage.MaxMemory), Stdout: o.Stdout, Stderr: o.Stderr,
		StageIn: durationpb.New(o.StageIn), Run: durationpb.New(o.Run), Started: Time(o.Started), Ended: Time(o.Ended), Process: int32(o.Process),
		Outputs: each(o.Outputs, produced), Reads: each(o.Reads, read),
	}
	if o.Delay >= 0 {
		out.Delay = durationpb.New(o.Delay)
	}
	return out
}

// FromOutcome decodes an outcome and bounds its log tails.
func FromOutcome(in *pb.Outcome) (task.Outcome, error) {
	id := FromAttemptID(in.GetAttempt())
	if _, err := task.ParseID(string(id.Task)); err != nil {
		return task.Outcome{}, fmt.Errorf("outcome: %w", err)
	}
	if kind := in.GetFailure(); kind < 0 || int(kind) > int(task.StorageFailed) {
		return task.Outcome{}, fmt.Errorf("outcome of %s: unknown kind of failure %d", id, kind)
	}
	o := task.Outcome{
		Attempt: id, Number: int(in.GetNumber()), Site: task.Site(in.GetSite()), OK: in.GetOk(),
		Failure: task.FailureKind(in.GetFailure()), Reason: in.GetReason(),
		ExitCode: int(in.GetExitCode()), Signal: in.GetSignal(),
		Usage: task.Usage{
			UserCPU: in.GetUserCpu().AsDuration(), SystemCPU: in.GetSystemCpu().AsDuration(),
			MaxMemory: task.Bytes(in.GetMaxMemoryBytes()),
		},
		Stdout: tail(in.GetStdout()), Stderr: tail(in.GetStderr()),
		StageIn: in.GetStageIn().AsDuration(), Run: in.GetRun().AsDuration(),
		Started: FromTime(in.GetStarted()), Ended: FromTime(in.GetEnded()), Process: int(in.GetProcess()), Delay: -1,
	}
	if in.Delay != nil {
		o.Delay = in.GetDelay().AsDuration()
	}
	var err error
	if o.Outputs, err = eachErr(in.GetOutputs(), fromProduced); err != nil {
		return o, fmt.Errorf("outcome of %s: %w", id, err)
	}
	if o.Reads, err = eachErr(in.GetReads(), FromRead); err != nil {
		return o, fmt.Errorf("outcome of %s: %w", id, err)
	}
	return o, nil
}

func tail(stream []byte) []byte {
	if len(stream) > task.LogTail {
		return stream[len(stream)-task.LogTail:]
	}
	return stream
}

func produced(p task.Produced) *pb.Produced {
	return &pb.Produced{Lfn: string(p.LFN), SizeBytes: int64(p.Size), Digest: Digest(p.Digest), Executable: p.Exec, Url: p.URL}
}

func fromProduced(in *pb.Produced) (task.Produced, error) {
	digest, err := FromDigest(in.GetDigest())
	return task.Produced{
		LFN: task.LFN(in.GetLfn()), Size: task.Bytes(in.GetSizeBytes()), Digest: digest, Exec: in.GetExecutable(), URL: in.GetUrl(),
	}, err
}

func read(r task.Read) *pb.Read {
	return &pb.Read{
		Lfn: string(r.LFN), SizeBytes: int64(r.Size), Digest: Digest(r.Digest), Source: pb.ReadSource(r.Source) + 1,
		Intermediate: r.Intermediate, Producer: AttemptID(r.Producer),
	}
}

// FromRead decodes a read.
func FromRead(in *pb.Read) (task.Read, error) {
	digest, err := FromDigest(in.GetDigest())
	if err != nil {
		return task.Read{}, err
	}
	if s := in.GetSource(); s < pb.ReadSource_READ_SOURCE_LOCAL || s > pb.ReadSource_READ_SOURCE_REMOTE {
		return task.Read{}, fmt.Errorf("read of %s: unknown source %d", in.GetLfn(), s)
	}
	return task.Read{
		LFN: task.LFN(in.GetLfn()), Size: task.Bytes(in.GetSizeBytes()), Digest: digest, Source: task.Source(in.GetSource() - 1),
		Intermediate: in.GetIntermediate(), Producer: FromAttemptID(in.GetProducer()),
	}, nil
}

// Outcomes encodes a list of outcomes.
func Outcomes(list []task.Outcome) []*pb.Outcome { return each(list, Outcome) }

// OutcomeDigest is what a seal holds of an outcome: all but the process, without which
// masters of the release before pass it on.
func OutcomeDigest(o *pb.Outcome) (task.OutcomeDigest, error) {
	process := o.GetProcess()
	o.Process = 0
	form, err := proto.MarshalOptions{Deterministic: true}.Marshal(o)
	o.Process = process
	return sha256.Sum256(form), err
}

// DigestsOf are what a seal holds of outcomes.
func DigestsOf(outcomes []task.Outcome) ([]task.OutcomeDigest, error) {
	return eachErr(Outcomes(outcomes), OutcomeDigest)
}

func seal(s *task.Seal) *pb.OutcomeSeal {
	return &pb.OutcomeSeal{
		Certificate: s.Certificate, Digests: each(s.Digests, func(d task.OutcomeDigest) []byte { return d[:] }), Signature: s.Signature,
	}
}

// FromSeal decodes a seal.
func FromSeal(in *pb.OutcomeSeal) (*task.Seal, error) {
	digests, err := eachErr(in.GetDigests(), func(text []byte) (d task.OutcomeDigest, err error) {
		if copy(d[:], text) != len(d) || len(text) != len(d) {
			err = fmt.Errorf("seal: a digest of %d bytes", len(text))
		}
		return d, err
	})
	return &task.Seal{Certificate: in.GetCertificate(), Digests: digests, Signature: in.GetSignature()}, err
}

// FromOutcomes decodes a list of outcomes.
func FromOutcomes(list []*pb.Outcome) ([]task.Outcome, error) { return eachErr(list, FromOutcome) }
