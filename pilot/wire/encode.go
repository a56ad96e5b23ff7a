package wire

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotage-grid/pilotage/pilot/message"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// Encode turns a message into bytes. Texts that are not UTF-8, such as a
// reason that quotes a payload, arrive with replacement characters. Equal
// messages give equal bytes.
func Encode(m message.Message) []byte {
	envelope := envelopeOf(m)
	options := proto.MarshalOptions{Deterministic: true}
	data, err := options.Marshal(envelope)
	if err != nil {
		repair(envelope.ProtoReflect())
		data, err = options.Marshal(envelope)
	}
	if err != nil {
		panic(fmt.Sprintf("wire: protobuf refuses %T: %v", m, err))
	}
	return data
}

func envelopeOf(m message.Message) *pb.RoundMessage {
	envelope := &pb.RoundMessage{}
	switch m := m.(type) {
	case message.TaskList:
		envelope.Body = &pb.RoundMessage_TaskList{TaskList: taskList(m)}
	case message.Answer:
		envelope.Body = &pb.RoundMessage_Answer{Answer: answer(m)}
	case message.State:
		envelope.Body = &pb.RoundMessage_State{State: state(m)}
	case message.Report:
		envelope.Body = &pb.RoundMessage_Report{Report: report(m)}
	case message.Snapshot:
		envelope.Body = &pb.RoundMessage_Snapshot{Snapshot: snapshot(m)}
	case message.Assign:
		envelope.Body = &pb.RoundMessage_Assign{Assign: &pb.RoundAssign{Term: term(m.Term), Serial: m.Serial, Tasks: each(m.Tasks, assignment)}}
	case message.Retract:
		envelope.Body = &pb.RoundMessage_Retract{Retract: &pb.RoundRetract{Term: term(m.Term), Task: string(m.Task), Lease: uint64(m.Lease)}}
	case message.Kill:
		envelope.Body = &pb.RoundMessage_Kill{Kill: &pb.RoundKill{
			Term: term(m.Term), Task: string(m.Task), Lease: uint64(m.Lease), Reason: m.Reason,
		}}
	case message.Acks:
		envelope.Body = &pb.RoundMessage_Acks{Acks: &pb.RoundAcks{
			Acks: taskpb.Acks(m.Acks), Stored: each(m.Stored, outputID), Relieved: each(m.Relieved, outputID),
		}}
	case message.Want:
		envelope.Body = &pb.RoundMessage_Want{Want: &pb.RoundWant{
			Term: term(m.Term), Serial: m.Serial, State: m.State, Copies: m.Copies, Row: m.Row,
		}}
	case message.KeepCopy:
		envelope.Body = &pb.RoundMessage_KeepCopy{KeepCopy: keepCopy(m)}
	case message.StoreOrder:
		envelope.Body = &pb.RoundMessage_StoreOrder{StoreOrder: &pb.RoundStoreOrder{File: taskpb.File(m.File)}}
	case message.Replicate:
		envelope.Body = &pb.RoundMessage_Replicate{Replicate: &pb.RoundReplicate{
			Term: term(m.Term), Files: each(m.Files, taskpb.File), Drops: each(m.Drops, taskpb.File),
		}}
	case message.DrainOrder:
		envelope.Body = &pb.RoundMessage_DrainOrder{DrainOrder: &pb.RoundDrainOrder{Reason: m.Reason}}
	default:
		panic(fmt.Sprintf("wire: %T has no form on the wire", m))
	}
	return envelope
}

func answer(m message.Answer) *pb.RoundAnswer {
	out := &pb.RoundAnswer{Pilot: string(m.Pilot), Peer: string(m.Peer), Have: each(m.Have, key)}
	if m.Update != nil {
		out.Update = rowUpdate(*m.Update)
	}
	if m.State != nil {
		out.State = state(*m.State)
	}
	return out
}

func state(m message.State) *pb.RoundState {
	return &pb.RoundState{
		Pilot: &pb.RoundPilot{
			Id: string(m.Pilot.ID), Site: string(m.Pilot.Site), Host: m.Pilot.Host, Resources: resources(m.Pilot.Resources),
			Slots: int32(m.Pilot.Slots), Features: m.Pilot.Features, Arch: m.Pilot.Arch, Os: m.Pilot.OS,
			Load: m.Pilot.Load, Lifetime: durationpb.New(m.Pilot.Lifetime),
		},
		Peer: string(m.Peer), Draining: m.Draining, Stopped: m.Stopped, InHand: each(m.InHand, inHand),
		Outcomes: taskpb.Outcomes(m.Outcomes), Stored: taskpb.StoredList(m.Stored), Copies: taskpb.Leases(m.Copies),
		Gone:      each(m.Gone, taskpb.File),
		CopyFiles: each(m.CopyFiles, taskpb.File), CopiesAge: durationpb.New(m.CopiesAge),
		Cache: cacheReport(m.Cache), Number: m.Number, Seen: m.Seen, List: version(m.List),
	}
}

func keepCopy(m message.KeepCopy) *pb.RoundKeepCopy {
	return &pb.RoundKeepCopy{
		Term: term(m.Term), Whole: m.Whole, Leases: taskpb.Leases(m.Leases), Files: each(m.Files, taskpb.File),
		Drop: each(m.Drop, func(id task.LeaseID) uint64 { return uint64(id) }),
		Gone: each(m.Gone, func(id message.LeasedID) *pb.RoundLeasedId {
			return &pb.RoundLeasedId{Lease: uint64(id.Lease), Task: string(id.Task)}
		}),
	}
}

func inHand(job message.InHand) *pb.RoundInHand {
	return &pb.RoundInHand{
		Attempt: taskpb.AttemptID(job.Attempt), Number: int32(job.Number), Started: job.Started,
		Ended: job.Ended, Prefill: job.Prefill, Need: resources(job.Need),
	}
}

func cacheReport(c message.CacheReport) *pb.RoundCache {
	if c == (message.CacheReport{}) {
		return nil
	}
	return &pb.RoundCache{CapacityBytes: uint64(c.Capacity), UsedBytes: uint64(c.Used), Evictions: c.Evictions, Damaged: c.Damaged}
}

func report(m message.Report) *pb.RoundReport {
	out := &pb.RoundReport{
		Number: m.Number, Seen: m.Seen, Starts: taskpb.Starts(m.Starts), Ended: each(m.Ended, taskpb.AttemptID),
		Outcomes: taskpb.Outcomes(m.Outcomes), Stored: taskpb.StoredList(m.Stored),
		Returned: each(m.Returned, func(h message.Handback) *pb.RoundHandback {
			return &pb.RoundHandback{Task: string(h.Task), Lease: uint64(h.Lease), Reason: h.Reason, Missing: each(h.Missing, taskpb.File)}
		}),
		Updates: each(m.Updates, rowUpdate), Cache: cacheReport(m.Cache), StorageReads: taskpb.StorageReads(m.SEReads),
		Draining: m.Draining, Stopped: m.Stopped, WantList: m.WantList,
		Retracts: each(m.Retracts, func(a message.RetractAnswer) *pb.RoundRetractAnswer {
			return &pb.RoundRetractAnswer{Task: string(a.Task), Lease: uint64(a.Lease), Retracted: a.Retracted}
		}),
		Leaves: each(m.Leaves, taskpb.File),
		Gone:   each(m.Gone, taskpb.File), BadCopies: taskpb.LostFiles(m.BadCopies),
		Kept: each(m.Kept, func(k message.KeptAnswer) *pb.RoundKept {
			return &pb.RoundKept{Output: outputID(k.Output), Failure: k.Failure, Away: k.Away}
		}),
		Replicated: each(m.Replicated, func(r message.ReplicatedAnswer) *pb.RoundReplicated {
			return &pb.RoundReplicated{Key: key(r.Key), Copied: r.Copied, Bytes: uint64(max(0, r.Bytes)), Failure: r.Failure}
		}),
	}
	if m.Row != nil {
		out.Row = row(*m.Row)
	}
	return out
}

func outputID(id task.OutputID) *pb.RoundOutputId {
	return &pb.RoundOutputId{Attempt: taskpb.AttemptID(id.Attempt), Lfn: string(id.LFN)}
}

func assignment(a message.Assignment) *pb.RoundAssignment {
	return &pb.RoundAssignment{
		Task: taskpb.Task(a.Task), Lease: uint64(a.Lease), Generation: a.Generation, Number: int32(a.Number),
		Files: each(a.Files, taskpb.File), Prefill: a.Prefill, Waited: durationpb.New(a.Waited),
	}
}

func resources(r task.Resources) *pb.Resources {
	if r == (task.Resources{}) {
		return nil
	}
	return taskpb.Resources(r)
}

func term(t task.Term) *pb.Term {
	if t.IsZero() {
		return nil
	}
	return taskpb.Term(t)
}

// repair replaces what is not UTF-8 in every text of a message.
func repair(said protoreflect.Message) {
	said.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap(): // a task's environment, checked at submission
		case field.IsList():
			list := value.List()
			for i := range list.Len() {
				if text, changed := repaired(field, list.Get(i)); changed {
					list.Set(i, text)
				}
			}
		default:
			if text, changed := repaired(field, value); changed {
				said.Set(field, text)
			}
		}
		return true
	})
}

func repaired(field protoreflect.FieldDescriptor, value protoreflect.Value) (protoreflect.Value, bool) {
	switch field.Kind() {
	case protoreflect.MessageKind:
		repair(value.Message())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.ToValidUTF8(value.String(), "\uFFFD")), true
	default:
	}
	return value, false
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
