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

// Whatever a pilot tells of itself arrives as it was.
func TestPullRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prints := func(label string) (list []task.FilePrint) {
			for _, n := range rapid.SliceOfN(rapid.Uint64(), 1, 5).Draw(t, label) {
				list = append(list, task.FilePrint(n))
			}
			return list
		}
		sent := task.Pull{
			Sync:   task.Sync{Site: "siteA", Pilot: "p-abcdefgh", Hold: time.Second, Leases: []task.LeaseID{3}},
			Self:   task.Puller{Arch: "amd64", OS: "linux", Load: 0.5, Lifetime: time.Hour, CoreSpeed: 2.5, FreeCores: 3, CPUBound: 1, IOBound: 2},
			Places: task.Places{Free: task.Resources{Cores: 2, Memory: 3, Disk: 4}, FreeSlots: 5, Prefill: 6, Ending: task.Resources{Cores: 7}},
			Holding: []task.Holding{{
				Task: "w-abcdefghij/t", Lease: task.LeaseID(rapid.Uint64().Draw(t, "lease")), Started: rapid.Bool().Draw(t, "started"),
			}},
			Cache: task.CacheDelta{Base: 7, Version: 8, Added: prints("added"), Removed: prints("removed"), Partial: rapid.Bool().Draw(t, "partial")},
		}
		data, err := proto.Marshal(taskpb.Pull(sent))
		if err != nil {
			t.Fatal(err)
		}
		var wire pb.PullRequest
		if err := proto.Unmarshal(data, &wire); err != nil {
			t.Fatal(err)
		}
		got, err := taskpb.FromPull(&wire, sent.Pilot)
		if err != nil || !reflect.DeepEqual(got, sent) {
			t.Fatalf("got %+v, %v; sent %+v", got, err, sent)
		}
	})
}
