package server_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// BenchmarkLargeLists pages through the lists of a queue with 20,000 tasks and 2,000
// pilots, or PILOTAGE_LISTS times as many, half of the pilots at one of 101 sites. Run it
// with -benchtime 1x; the figures of docs/bench.md have PILOTAGE_LISTS=50.
func BenchmarkLargeLists(b *testing.B) {
	times := 1
	if text := os.Getenv("PILOTAGE_LISTS"); text != "" {
		if _, err := fmt.Sscan(text, &times); err != nil {
			b.Fatal(err)
		}
	}
	q := start(b, onSQLite)
	for i := range 101 {
		q.addSite(fmt.Sprintf("site%03d", i))
	}
	large := &pb.SubmitWorkflowRequest{IdempotencyKey: "large", Name: "large"}
	for i := range 20_000 * times {
		large.Tasks = append(large.Tasks, plain(fmt.Sprint("t", i)))
	}
	id := q.submitInParts(large, 1000)
	q.savePilots(2_000*times, func(i int, p *taskqueue.PilotRecord) {
		p.Site, p.Slots = "site000", 8
		if i%2 == 1 {
			p.Site = task.Site(fmt.Sprintf("site%03d", 1+i/2%100))
		}
		p.Host, p.Job = fmt.Sprintf("wn%06d.example.org", i/8), fmt.Sprintf("job-%d.ce.example.org", i)
		p.Resources = task.Resources{Cores: 8, Memory: 16 * task.GiB, Disk: 100 * task.GiB}
	})
	people, admin := q.submit(), q.admin()
	for b.Loop() {
		pages(b, "tasks", func(token string) (proto.Message, string, error) {
			r, err := people.ListTasks(q.ctx, &pb.ListTasksRequest{Workflow: id, PageSize: 1000, PageToken: token})
			return r, r.GetNextPageToken(), err
		})
		pages(b, "steps", func(string) (proto.Message, string, error) {
			r, err := people.GetWorkflowSteps(q.ctx, &pb.GetWorkflowStepsRequest{Workflow: id})
			return r, "", err
		})
		pages(b, "pilots", func(token string) (proto.Message, string, error) {
			r, err := people.ListPilots(q.ctx, &pb.ListPilotsRequest{PageSize: 1000, PageToken: token})
			return r, r.GetNextPageToken(), err
		})
		pages(b, "pilots of a site", func(token string) (proto.Message, string, error) {
			r, err := people.ListPilots(q.ctx, &pb.ListPilotsRequest{PageSize: 100, PageToken: token, Site: "site050"})
			return r, r.GetNextPageToken(), err
		})
		pages(b, "sites", func(token string) (proto.Message, string, error) {
			r, err := admin.ListSites(q.ctx, &pb.ListSitesRequest{PageToken: token})
			return r, r.GetNextPageToken(), err
		})
		pages(b, "demand", func(string) (proto.Message, string, error) {
			r, err := admin.GetDemand(q.ctx, &pb.GetDemandRequest{Site: "site000"})
			return r, "", err
		})
	}
}

// pages reads a list to its end, and tells of its slowest page, its largest, and what the
// process allocated for one.
func pages(b *testing.B, name string, call func(token string) (proto.Message, string, error)) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var longest, sum time.Duration
	n, largest := 0, 0
	for token := ""; n == 0 || token != ""; n++ {
		began := time.Now()
		reply, next, err := call(token)
		if err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		took := time.Since(began)
		token, largest, sum, longest = next, max(largest, proto.Size(reply)), sum+took, max(longest, took)
	}
	runtime.ReadMemStats(&after)
	b.Logf("%s: %d pages, longest %s, mean %s, largest %d B, %d KiB allocated for each", name, n,
		longest.Round(10*time.Microsecond), (sum / time.Duration(n)).Round(10*time.Microsecond), largest, int(after.TotalAlloc-before.TotalAlloc)/n>>10)
}
