package wire_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/wire"
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

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/format.txt")

// What travels is told by the places of fields: testdata/format.txt lists them. Lines
// that are added to a type are fine; where one changes, older pilots read something
// else, and wire.version has to be raised.
func TestFormat(t *testing.T) {
	var format strings.Builder
	seen := make(map[reflect.Type]bool)
	var list func(of reflect.Type)
	list = func(of reflect.Type) {
		for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() || seen[of] {
			return
		}
		seen[of] = true
		fmt.Fprintln(&format, of)
		for i := range of.NumField() {
			fmt.Fprintf(&format, "  %d %s %s\n", i+1, of.Field(i).Name, of.Field(i).Type)
		}
		for i := range of.NumField() {
			list(of.Field(i).Type)
		}
	}
	said := make(map[byte]message.Message)
	rapid.Check(t, func(t *rapid.T) {
		for _, draw := range kinds {
			m := draw(t)
			said[wire.Encode(m)[1]] = m
		}
	})
	for _, tag := range slices.Sorted(maps.Keys(said)) {
		fmt.Fprintf(&format, "message %d: ", tag>>3)
		if of := reflect.TypeOf(said[tag]); seen[of] {
			fmt.Fprintln(&format, of)
		} else {
			list(of)
		}
	}
	const golden = "testdata/format.txt"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(format.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != format.String() {
		t.Errorf("what travels has changed: go test ./pilot/wire -rewrite, and read the difference (%v)", err)
	}
}

// A reason may quote what a payload printed.
func TestTextThatIsNotUTF8(t *testing.T) {
	sent := message.Report{
		Status: message.Status{Outcomes: []task.Outcome{{
			Attempt: task.AttemptID{Task: "w-abcdefghij/t", Pilot: "p-abcdefgh"}, Reason: "said \xff\xfe", Delay: -1,
			Stderr: []byte{0xff},
		}}},
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
	listed := func(entry matcher.ListEntry) message.Message {
		return message.TaskList{Delta: matcher.ListDelta{Add: []*matcher.ListEntry{&entry}}}
	}
	described := &task.Task{ID: "w-abcdefghij/t"}
	attempt := task.AttemptID{Task: described.ID, Pilot: "p-abcdefgh"}
	for name, c := range map[string]struct {
		message message.Message
		want    string
	}{
		"a long name":       {listed(matcher.ListEntry{Task: &task.Task{ID: task.ID(long)}}), "TaskList: Delta: Add: IDs: 5000 bytes, at most 512"},
		"an unknown source": {listed(matcher.ListEntry{Task: described, Files: []matcher.FileInfo{{Source: 9}}}), "Sources: 9 is not from 0 to 3"},
		"a negative size":   {listed(matcher.ListEntry{Task: described, Files: []matcher.FileInfo{{Size: -2}}}), "Sizes: -2 is not from -1"},
		"a long key":        {listed(matcher.ListEntry{Task: described, Files: []matcher.FileInfo{{Key: task.FileKey(long)}}}), "Keys: 5000 bytes"},
		"negative resources": {
			listed(matcher.ListEntry{Task: &task.Task{Resources: task.Resources{Cores: -1}}}), "cannot be negative",
		},
		"too many arguments": {message.Assign{Tasks: []message.Assignment{{Task: task.Task{Argv: make([]string, task.MaxArgv+1)}}}}, "Argv: "},
		"an outcome of no task": {
			message.Report{Status: message.Status{Outcomes: []task.Outcome{{Attempt: task.AttemptID{Task: "x", Pilot: "p-abcdefgh"}}}}}, "not a task id",
		},
		"an unknown failure": {message.Report{Status: message.Status{Outcomes: []task.Outcome{{Attempt: attempt, Failure: 99}}}}, "Failure: 99 is not"},
		"a verdict that is none": {
			message.Acks{Acks: []task.Ack{{Attempt: attempt}}}, "no verdict",
		},
		"an unknown verdict": {message.Acks{Acks: []task.Ack{{Attempt: attempt, Verdict: 9}}}, "Verdict: 9 is not from 1 to 4"},
		"files that do not fit the inputs": {
			message.Assign{Tasks: []message.Assignment{{Task: task.Task{Inputs: []task.Input{{LFN: "a", Name: "a"}}}}}}, "0 files for 1 inputs",
		},
		"a negative number": {message.Assign{Tasks: []message.Assignment{{Number: -1}}}, "Number: -1 is not"},
		"an absurd cache":   {message.Report{Status: message.Status{Cache: message.CacheReport{Used: -1 << 63}}}, "Cache: Used: -9223372036854775808"},
		"ten million waits": {message.Report{Ended: make([]task.AttemptID, 50_001)}, "Ended: 50001 items, at most 50000"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := wire.Decode(wire.Encode(c.message))
			if !errors.Is(err, wire.ErrMalformed) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("got %v, %v; want an error with %q", m, err, c.want)
			}
		})
	}
	if _, err := wire.Decode(make([]byte, wire.MaxMessage+1)); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("a message beyond the limit: %v", err)
	}
}

// What no pilot would write is refused as well: bytes are made by hand here. Numbers
// are those of fields in Answer, RowUpdate and the columns of exceptions.
func TestDecodeRefusesForms(t *testing.T) {
	field := func(number protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
	}
	columns := func(columns ...[]byte) []byte { // of RowUpdate.Set
		return field(2, field(3, field(5, slices.Concat(columns...))))
	}
	rank := protowire.AppendFixed64(nil, 1)
	for name, c := range map[string]struct {
		message []byte
		want    string
	}{
		"nothing":                    {nil, "no kind"},
		"a later kind":               {field(90, nil), "no kind"},
		"half a message":             {field(2, field(1, []byte("x")))[:4], "ends too early"},
		"ranks that are too few":     {columns(field(1, []byte{2, 4}), field(2, rank)), "2 numbers, 1 ranks"},
		"half a rank":                {columns(field(1, []byte{2}), field(2, rank[:7])), "ends too early"},
		"a clause that is not there": {columns(field(1, []byte{2}), field(2, rank), field(3, []byte{3})), "clause 3 of 0"},
		"half a digest":              {field(2, field(5, []byte{0, 1, 2})), "2 bytes of a digest"},
		"a number for a text":        {field(2, []byte{1 << 3, 7}), "another kind"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := wire.Decode(append(wire.Encode(message.Want{})[:1], c.message...))
			if !errors.Is(err, wire.ErrMalformed) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("got %v, %v; want an error with %q", m, err, c.want)
			}
		})
	}
	if m, err := wire.Decode(append(wire.Encode(message.Want{Row: true}), 0xf8, 0x01, 1)); err == nil {
		t.Errorf("%v and something behind it", m)
	}
	later := slices.Concat(wire.Encode(message.Want{})[:1], field(10, append([]byte{5 << 3, 1}, field(30, []byte("of a later version"))...)))
	if m, err := wire.Decode(later); err != nil || m != (message.Want{Row: true}) {
		t.Errorf("a message with a further field is %v, %v", m, err)
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
