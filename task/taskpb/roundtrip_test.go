package taskpb_test

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

func moment(t *rapid.T, label string) time.Time {
	return time.Unix(rapid.Int64Range(1, 4e9).Draw(t, label), 0).UTC()
}

func attempt(t *rapid.T) task.AttemptID {
	return task.AttemptID{
		Task: "w-abcdefghij/t", Generation: rapid.Uint32Range(1, 9).Draw(t, "generation"),
		Lease: task.LeaseID(rapid.Uint64().Draw(t, "lease")), Pilot: "p-abcdefgh", Counter: rapid.Uint64().Draw(t, "counter"),
	}
}

func digest(t *rapid.T) task.Digest {
	var d task.Digest
	copy(d[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
	return d
}

func outcome(t *rapid.T) task.Outcome {
	return task.Outcome{
		Attempt: attempt(t), Number: 2, Site: "siteA", OK: rapid.Bool().Draw(t, "ok"),
		Failure: task.FailureKind(rapid.IntRange(0, int(task.StorageFailed)).Draw(t, "failure")),
		Reason:  rapid.String().Draw(t, "reason"), ExitCode: rapid.IntRange(-1, 255).Draw(t, "exit"), Signal: "SIGKILL",
		Usage:   task.Usage{UserCPU: time.Second, SystemCPU: time.Millisecond, MaxMemory: 5 * task.MiB},
		Outputs: []task.Produced{{LFN: "w-abcdefghij:o", Size: 7, Digest: digest(t), Exec: true, URL: "file:///x"}},
		Reads: []task.Read{{
			LFN: "vo:i", Size: 9, Digest: digest(t), Intermediate: true, Producer: attempt(t),
			Source: task.Source(rapid.IntRange(0, 3).Draw(t, "source")),
		}},
		Stdout: []byte("out"), Stderr: []byte("err"), StageIn: time.Second, Run: time.Minute,
		Started: moment(t, "started"), Ended: moment(t, "ended"),
		Delay: time.Duration(rapid.Int64Range(-1, 1e12).Draw(t, "delay")),
	}
}

func file(t *rapid.T) task.File {
	return task.File{
		LFN: "w-abcdefghij:f", Size: -1, Digest: digest(t), Adler32: "0a1b2c3d", Exec: true, Producer: attempt(t),
		Announced: []task.Site{"siteA"}, Replicas: []task.Replica{{Site: "siteB", URL: "https://se/x"}},
	}
}

// Whatever is sent arrives as it was, through the bytes of the wire.
func TestSyncRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		class := task.Class{Require: "true", Rank: "locality", Resources: task.Resources{Cores: 1, Memory: 2, Disk: 3}}
		clauses := []task.ClauseCount{{Clause: "pilot.memory >= 5", Pilots: 3}}
		sent := task.Sync{
			Site: "siteA", Term: task.Term{Epoch: 3, Ballot: 1, Peer: "x"}, Pilot: "p-abcdefgh",
			Leases:     []task.LeaseID{1, 2},
			Capacity:   task.Capacity{Pilots: 1, Slots: 2, FreeSlots: 3, Assigned: 4, Running: 5, Waiting: 6, CacheBytes: 7, CacheUsed: 8, Evictions: 9, Damaged: 10, Stopped: 3, StoppedSlots: 12, StoppedWhy: "load < 0.5"},
			Census:     task.Census{Joined: []task.PilotID{"p-abcdefgh"}, InHand: []task.AttemptID{attempt(t)}},
			NodeHealth: task.NodeHealth{Nodes: []task.NodeMark{{Name: "node", Failed: 5, Pauses: 1, Left: time.Second, Why: "exit code 1"}}, Judges: true},
			Pauses:     []task.Pause{{Pilot: "p-abcdefgh", Why: "load < 0.5"}, {Pilot: "p-abcdefgi"}},
			Outcomes:   []task.Outcome{outcome(t)}, Starts: []task.Start{{Attempt: attempt(t), Number: 1, Started: moment(t, "s")}},
			Returns: []task.Returned{{Task: "w-abcdefghij/t", Generation: 1, Lease: 4, Reason: "r", Unread: true}},
			FileNews: task.FileNews{
				Stored: []task.Stored{{LFN: "x", Attempt: attempt(t), URL: "u", Size: 4, Digest: digest(t)}},
				Lost:   []task.LostFile{{LFN: "x", Digest: digest(t), URL: "file:///z", Pilot: "p-1", Reason: "y"}},
			},
			Departed:  []task.Departure{{Pilot: "p-abcdefgh", Dead: true, Reason: "z"}},
			Refused:   []task.Refusal{{Class: class, Pilots: 4, Clauses: clauses}},
			Confirmed: []task.Revoked{{Lease: 9, Task: "w-abcdefghij/t", Cancel: true}},
			Report:    task.SiteReport{Seq: 4, SEReads: []task.SERead{{Owner: "siteB", Files: 1, Bytes: 2}}, Replicas: task.ReplicaSum{Files: 3, Bytes: 4}}, Hold: time.Second,
		}
		wire, err := proto.Marshal(taskpb.Sync(sent))
		if err != nil {
			t.Fatal(err)
		}
		var message pb.SyncRequest
		if err := proto.Unmarshal(wire, &message); err != nil {
			t.Fatal(err)
		}
		got, err := taskpb.FromSync(&message, "p-abcdefgh")
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(sent, got) {
			t.Fatalf("sent %+v\ngot  %+v", sent, got)
		}
	})
}

func TestSyncReplyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		described := task.Task{
			ID: "w-abcdefghij/t", Argv: []string{"true"}, Env: map[string]string{"A": "b"},
			Inputs: []task.Input{{LFN: "i", Name: "in"}}, Outputs: []task.Output{{LFN: "o", Name: "out"}},
			Resources: task.Resources{Cores: 1, Memory: 2, Disk: 3}, Require: "true", Rank: "rest", Bound: task.IOBound, Queue: "blastn", Priority: -4, Retries: 2,
			Walltime: time.Hour,
		}
		sent := task.SyncReply{
			Leases: []task.Lease{{
				ID: 5, TTL: time.Minute, Files: []task.File{file(t)},
				Tasks: []task.LeasedTask{{Task: described, Generation: 2, Number: 3, Age: 4, Blocked: true, Avoid: []string{"node"}}},
			}},
			Unknown: []task.LeaseID{8}, Revoked: []task.Revoked{{Lease: 1, Task: "t"}},
			Acks:   []task.Ack{{Attempt: attempt(t), Verdict: task.AckDuplicate, Winner: attempt(t)}},
			Denied: []task.PeerID{"p"}, Drain: []task.PilotID{"q"}, ReportSeq: 3, Check: []task.File{file(t)},
			Settings: task.SiteSettings{Site: "siteA", SE: "file:///se", RemoteRead: true, Mode: "distributed", Draining: true, SiteScheduling: task.SiteScheduling{RoundEvery: time.Second, Prefill: 1}},
		}
		wire, err := proto.Marshal(taskpb.SyncReply(sent))
		if err != nil {
			t.Fatal(err)
		}
		var message pb.SyncResponse
		if err := proto.Unmarshal(wire, &message); err != nil {
			t.Fatal(err)
		}
		got, err := taskpb.FromSyncReply(&message)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(sent, got) {
			t.Fatalf("sent %+v\ngot  %+v", sent, got)
		}
	})
}

func TestBadOutcomesAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*pb.Outcome){
		"no task":        func(o *pb.Outcome) { o.Attempt.Task = "" },
		"odd task id":    func(o *pb.Outcome) { o.Attempt.Task = "../x" },
		"failure kind":   func(o *pb.Outcome) { o.Failure = 77 },
		"short digest":   func(o *pb.Outcome) { o.Outputs[0].Digest = []byte("short") },
		"unknown source": func(o *pb.Outcome) { o.Reads[0].Source = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			good := taskpb.Outcome(task.Outcome{
				Attempt: task.AttemptID{Task: "w-abcdefghij/t"}, Outputs: []task.Produced{{LFN: "o"}}, Reads: []task.Read{{LFN: "i"}},
			})
			if _, err := taskpb.FromOutcome(good); err != nil {
				t.Fatalf("the good one is refused: %v", err)
			}
			spoil(good)
			if _, err := taskpb.FromOutcome(good); err == nil {
				t.Fatal("accepted")
			}
		})
	}
}

func TestLogTailIsBounded(t *testing.T) {
	long := make([]byte, task.LogTail+10)
	long[len(long)-1] = 'z'
	got, err := taskpb.FromOutcome(&pb.Outcome{Attempt: &pb.AttemptId{Task: "w-abcdefghij/t"}, Stdout: long})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Stdout) != task.LogTail || got.Stdout[task.LogTail-1] != 'z' {
		t.Fatalf("kept %d bytes, last %q", len(got.Stdout), got.Stdout[len(got.Stdout)-1])
	}
}
