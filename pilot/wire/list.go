package wire

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

func taskList(m message.TaskList) *pb.RoundTaskList {
	return &pb.RoundTaskList{
		Base: version(m.Delta.Base), Version: version(m.Delta.Version), Classes: each(m.Delta.Classes, class),
		Add: each(m.Delta.Add, entry), Remove: m.Delta.Remove, DropClasses: m.Delta.DropClasses,
		Census: m.Census, Copies: m.Copies, Ask: each(m.Ask, key),
	}
}

func snapshot(m message.Snapshot) *pb.RoundSnapshot {
	return &pb.RoundSnapshot{
		Version: version(m.List.Version), Classes: each(m.List.Classes, class), Entries: each(m.List.Entries, entry),
		Rates: &pb.RoundRates{
			Peer: m.List.Rates.Peer, Se: m.List.Rates.SE, Remote: m.List.Rates.Remote,
			PerFile: durationpb.New(m.List.Rates.PerFile),
		},
	}
}

func version(v matcher.ListVersion) *pb.RoundVersion {
	if v == (matcher.ListVersion{}) {
		return nil
	}
	return &pb.RoundVersion{Term: term(v.Term), Number: v.N}
}

func class(c matcher.ListClass) *pb.RoundClass {
	return &pb.RoundClass{Number: c.No, Require: c.Class.Require, Rank: c.Class.Rank, Resources: resources(c.Class.Resources)}
}

func entry(e *matcher.ListEntry) *pb.RoundEntry {
	return &pb.RoundEntry{
		Number: e.No, Version: e.Version, Class: e.Class, Task: taskpb.Task(*e.Task), Files: each(e.Files, listedFile),
	}
}

func listedFile(f matcher.FileInfo) *pb.RoundFile {
	out := &pb.RoundFile{Lfn: string(f.LFN), SizeBytes: int64(f.Size), Source: pb.ReadSource(f.Source) + 1}
	if f.Key != task.KeyOf(f.LFN, task.Digest{}) {
		out.Key = key(f.Key)
	}
	return out
}

// digestKey marks a key that is sent as the bytes of its digest: half as long
// as its text.
const digestKey = 0

func key(k task.FileKey) []byte {
	digest, found := k.Digest()
	if !found || task.KeyOf("", digest) != k {
		return []byte(k)
	}
	return append([]byte{digestKey}, digest[:]...)
}

func row(r matcher.Row) *pb.RoundRow {
	return &pb.RoundRow{
		Pilot: string(r.Pilot), Version: version(r.Version), Classes: each(r.Classes, classAnswer),
		Exceptions: exceptions(r.Exceptions), Files: each(r.Files, key),
	}
}

func rowUpdate(u matcher.RowUpdate) *pb.RoundRowUpdate {
	return &pb.RoundRowUpdate{
		Pilot: string(u.Pilot), Base: version(u.Base), Version: version(u.Version), Classes: each(u.Classes, classAnswer),
		Set: exceptions(u.Set), Clear: differences(u.Clear), Came: each(u.Came, key), Left: each(u.Left, key),
	}
}

func classAnswer(a matcher.ClassAnswer) *pb.RoundClassAnswer {
	return &pb.RoundClassAnswer{
		Class: a.Class, Feasible: a.Feasible, FailedClause: a.FailedClause, Base: a.Base, PerTask: a.PerTask,
	}
}

func exceptions(list []matcher.Exception) *pb.RoundExceptions {
	if len(list) == 0 {
		return nil
	}
	out := &pb.RoundExceptions{
		Numbers: differences(each(list, func(e matcher.Exception) uint64 { return e.No })),
		Ranks:   each(list, func(e matcher.Exception) float64 { return e.Rank }),
	}
	places := make(map[string]uint32)
	for i, e := range list {
		if !e.Infeasible {
			continue
		}
		if out.Failed == nil {
			out.Failed = make([]uint32, len(list))
		}
		place, known := places[e.FailedClause]
		if !known {
			out.Clauses = append(out.Clauses, e.FailedClause)
			place = uint32(len(out.Clauses))
			places[e.FailedClause] = place
		}
		out.Failed[i] = place
	}
	return out
}

// differences makes small numbers of rising ones. Subtraction wraps around,
// so that any numbers come back as they were.
func differences(numbers []uint64) []int64 {
	var before uint64
	return each(numbers, func(number uint64) int64 {
		difference := int64(number - before)
		before = number
		return difference
	})
}

func sums(differences []int64) []uint64 {
	var number uint64
	return each(differences, func(difference int64) uint64 {
		number += uint64(difference)
		return number
	})
}
