package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/wire"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

// Whatever one pilot says arrives at another as it was said.
func TestMessagesArriveAsTheyWere(t *testing.T) {
	for name, draw := range kinds {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				sent := draw(t)
				received, err := wire.Decode(wire.Encode(sent))
				if err != nil {
					t.Fatalf("sent %+v: %v", sent, err)
				}
				if !reflect.DeepEqual(received, sent) {
					t.Fatalf("sent     %+v\nreceived %+v", sent, received)
				}
			})
		})
	}
}

// Every kind of the protocol has a message, and the other way round.
func TestEveryBodyIsKnown(t *testing.T) {
	bodies := new(pb.RoundMessage).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	if bodies.Len() != len(kinds) {
		t.Errorf("round.proto has %d kinds, the tests draw %d", bodies.Len(), len(kinds))
	}
	for i := range bodies.Len() {
		field := bodies.Get(i)
		name := strings.ReplaceAll(strings.TrimPrefix(string(field.Message().Name()), "Round"), "_", "")
		if kinds[name] == nil {
			t.Errorf("no test draws %s", name)
		}
	}
}

// A reason may quote what a payload printed.
func TestTextThatIsNotUTF8(t *testing.T) {
	sent := message.Report{
		Outcomes: []task.Outcome{{
			Attempt: task.AttemptID{Task: "w-abcdefghij/t", Pilot: "p-abcdefgh"}, Reason: "said \xff\xfe", Delay: -1,
			Stderr: []byte{0xff},
		}},
		Returned: []message.Handback{{Reason: "cut \xc3"}},
	}
	received, err := wire.Decode(wire.Encode(sent))
	if err != nil {
		t.Fatal(err)
	}
	report := received.(message.Report)
	if got := report.Outcomes[0].Reason; got != "said \uFFFD" {
		t.Errorf("reason arrived as %q", got)
	}
	if got := report.Outcomes[0].Stderr; len(got) != 1 || got[0] != 0xff {
		t.Errorf("standard error arrived as %q: bytes must not be changed", got)
	}
	if got := report.Returned[0].Reason; got != "cut \uFFFD" {
		t.Errorf("reason arrived as %q", got)
	}
}

func TestDecodeRefuses(t *testing.T) {
	long := strings.Repeat("x", 5000)
	attempt := func(id string) *pb.AttemptId { return &pb.AttemptId{Task: id, Pilot: "p-abcdefgh"} }
	listed := func(entry *pb.RoundEntry) *pb.RoundMessage {
		return &pb.RoundMessage{Body: &pb.RoundMessage_TaskList{TaskList: &pb.RoundTaskList{Add: []*pb.RoundEntry{entry}}}}
	}
	reported := func(report *pb.RoundReport) *pb.RoundMessage {
		return &pb.RoundMessage{Body: &pb.RoundMessage_Report{Report: report}}
	}
	answered := func(exceptions *pb.RoundExceptions) *pb.RoundMessage {
		return reported(&pb.RoundReport{Row: &pb.RoundRow{Exceptions: exceptions}})
	}
	assigned := func(a *pb.RoundAssignment) *pb.RoundMessage {
		return &pb.RoundMessage{Body: &pb.RoundMessage_Assign{Assign: &pb.RoundAssign{Tasks: []*pb.RoundAssignment{a}}}}
	}
	for name, c := range map[string]struct {
		message *pb.RoundMessage
		want    string
	}{
		"nothing":           {&pb.RoundMessage{}, "no body"},
		"a list without":    {listed(&pb.RoundEntry{}), "task is missing"},
		"a long name":       {listed(&pb.RoundEntry{Task: &pb.Task{Id: long}}), "entry.task.id has 5000 bytes"},
		"an unknown source": {listed(&pb.RoundEntry{Task: &pb.Task{}, Files: []*pb.RoundFile{{Source: 9}}}), "source 9 is unknown"},
		"a negative size": {
			listed(&pb.RoundEntry{Task: &pb.Task{}, Files: []*pb.RoundFile{{Source: 1, SizeBytes: -2}}}), "size_bytes is -2",
		},
		"half a digest": {
			listed(&pb.RoundEntry{Task: &pb.Task{}, Files: []*pb.RoundFile{{Source: 1, Key: []byte{0, 1, 2}}}}), "2 bytes of a digest",
		},
		"negative resources": {
			listed(&pb.RoundEntry{Task: &pb.Task{Resources: &pb.Resources{Cores: -1}}}), "cannot be negative",
		},
		"ranks that are too few": {answered(&pb.RoundExceptions{Numbers: []int64{1, 2}, Ranks: []float64{1}}), "2 numbers, 1 ranks"},
		"a clause that is not there": {
			answered(&pb.RoundExceptions{Numbers: []int64{1}, Ranks: []float64{1}, Failed: []uint32{3}}), "clause 3 of 0",
		},
		"an outcome of no task": {
			reported(&pb.RoundReport{Outcomes: []*pb.Outcome{{Attempt: attempt("x")}}}), "not a task id",
		},
		"an unknown failure": {
			reported(&pb.RoundReport{Outcomes: []*pb.Outcome{{Attempt: attempt("w-abcdefghij/t"), Failure: 99}}}), "unknown kind of failure 99",
		},
		"a verdict that is none": {
			&pb.RoundMessage{Body: &pb.RoundMessage_Acks{Acks: &pb.RoundAcks{Acks: []*pb.Ack{{Attempt: attempt("x")}}}}}, "verdict 0 is unknown",
		},
		"files that do not fit the inputs": {
			assigned(&pb.RoundAssignment{Task: &pb.Task{Inputs: []*pb.Binding{{Lfn: "a", Name: "a"}}}}), "0 for 1 inputs",
		},
		"a negative number": {assigned(&pb.RoundAssignment{Task: &pb.Task{}, Number: -1}), "assign.number is -1"},
		"an absurd cache": {
			reported(&pb.RoundReport{Cache: &pb.RoundCache{UsedBytes: 1 << 63}}), "cache.used_bytes is 9223372036854775808",
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := proto.Marshal(c.message)
			if err != nil {
				t.Fatal(err)
			}
			m, err := wire.Decode(data)
			if !errors.Is(err, wire.ErrMalformed) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("got %v, %v; want an error with %q", m, err, c.want)
			}
		})
	}
	if _, err := wire.Decode(make([]byte, wire.MaxMessage+1)); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("a message beyond the limit: %v", err)
	}
}

// Bytes from another pilot never crash this one; what is accepted can be sent
// on and arrives the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(wire.Encode(message.Want{State: true, Term: task.Term{Epoch: 1, Peer: "x"}}))
	f.Add(wire.Encode(message.Kill{Task: "w-abcdefghij/t", Lease: 7, Reason: "cancelled"}))
	f.Add(wire.Encode(message.TaskList{Census: true, Ask: []task.FileKey{"lfn:x"}, Delta: matcher.ListDelta{
		Add: []*matcher.ListEntry{{No: 1, Class: 1, Task: &task.Task{ID: "w-abcdefghij/t"}, Files: []matcher.FileInfo{{Key: "lfn:vo:x", LFN: "vo:x"}}}},
	}}))
	f.Add(wire.Encode(message.Report{
		Row: &matcher.Row{Exceptions: []matcher.Exception{{No: 5, Infeasible: true, FailedClause: "c"}, {No: 9, Rank: 2}}},
	}))
	f.Add(wire.Encode(message.KeepCopy{Leases: []task.Lease{{ID: 3, Tasks: []task.LeasedTask{{Task: task.Task{ID: "w-abcdefghij/t"}}}}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := wire.Decode(data)
		if err != nil {
			return
		}
		sent := wire.Encode(m)
		again, err := wire.Decode(sent)
		if err != nil {
			t.Fatalf("%+v is accepted, but not what is sent of it: %v", m, err)
		}
		if !bytes.Equal(sent, wire.Encode(again)) {
			t.Fatalf("accepted %+v\nsent on  %+v", m, again)
		}
	})
}

// A list of 10,000 tasks, as it goes to 1,500 pilots.
func BenchmarkEncodeList(b *testing.B) {
	list := longList(10_000)
	var data []byte
	for b.Loop() {
		data = wire.Encode(list)
	}
	b.ReportMetric(float64(len(data))/10_000, "bytes/task")
}

func BenchmarkDecodeList(b *testing.B) {
	data := wire.Encode(longList(10_000))
	for b.Loop() {
		if _, err := wire.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

func longList(n int) message.TaskList {
	list := message.TaskList{Delta: matcher.ListDelta{Classes: []matcher.ListClass{{No: 1, Class: task.Class{Rank: "locality"}}}}}
	for i := range n {
		name := task.LFN(fmt.Sprintf("w-abcdefghij:part.%05d", i))
		list.Delta.Add = append(list.Delta.Add, &matcher.ListEntry{
			No: uint64(i), Version: 1, Class: 1, Task: &task.Task{ID: task.ID(fmt.Sprintf("w-abcdefghij/index[%05d]", i))},
			Files: []matcher.FileInfo{{Key: task.KeyOf(name, task.Digest{}), LFN: name, Size: task.MiB, Source: task.SourcePeer}},
		})
	}
	return list
}
