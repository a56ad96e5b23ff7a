package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// whole collects a list page by page, in pages as large as the queue makes them, and wants
// more than one page of it, each entry once.
func whole[T any](t *testing.T, of string, want int, name func(T) string, page func(token string) ([]T, string, error)) {
	t.Helper()
	pages := 0
	all := pageThrough(t, 1000, func(token string) ([]T, string, error) {
		pages++
		return page(token)
	})
	names := make(map[string]bool, len(all))
	for _, entry := range all {
		names[name(entry)] = true
	}
	if len(all) != want || len(names) != want || pages < 2 {
		t.Errorf("%s: %d entries of %d names on %d pages, want %d", of, len(all), len(names), pages, want)
	}
}

// A list that is larger than a message is told in pages, each of which a client with
// gRPC's own limit of 4 MiB reads: of every kind of list there is more than that here.
func TestListsLargerThanAMessage(t *testing.T) {
	q := start(t, onSQLite)
	q.addSite("siteA")
	people, admin := q.submit(), q.admin()

	wide := &pb.SubmitWorkflowRequest{IdempotencyKey: "wide", Name: "wide"}
	for i := range 40 {
		made := plain(fmt.Sprint("t", i))
		made.Argv, made.Shell = nil, strings.Repeat("#", 120<<10)
		made.Outputs = []*pb.Binding{{Lfn: fmt.Sprint("o", i), Name: "o"}}
		wide.Tasks, wide.Outputs = append(wide.Tasks, made), append(wide.Outputs, fmt.Sprint("o", i))
	}
	id := q.submitInParts(wide, 1)
	groups := make([]string, 64)
	for i := range groups {
		groups[i] = fmt.Sprintf("%03d%s", i, strings.Repeat("g", 190))
	}
	for i := range 330 { // 13 kB each
		if _, err := admin.CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "submit", Label: fmt.Sprint("label", i), Groups: groups}); err != nil {
			t.Fatal(err)
		}
	}
	before, err := admin.ListAccess(q.ctx, &pb.ListAccessRequest{PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	few := len(before.GetAccesses())
	if before.GetNextPageToken() == "" || few < 100 {
		t.Errorf("%d accesses on the first page", few)
	}
	q.fill(id, groups)

	whole(t, "tasks", 40, func(i *pb.TaskInfo) string { return i.GetTask().GetId() }, func(token string) ([]*pb.TaskInfo, string, error) {
		reply, err := people.ListTasks(q.ctx, &pb.ListTasksRequest{Workflow: id, PageSize: 1000, PageToken: token, Full: true})
		return reply.GetTasks(), reply.GetNextPageToken(), err
	})
	name := func(f *pb.File) string { return f.GetLfn() }
	whole(t, "files", 40, name, func(token string) ([]*pb.File, string, error) {
		reply, err := people.ListFiles(q.ctx, &pb.ListFilesRequest{PageSize: 1000, PageToken: token})
		return reply.GetFiles(), reply.GetNextPageToken(), err
	})
	whole(t, "outputs", 40, name, func(token string) ([]*pb.File, string, error) {
		reply, err := people.ListWorkflowOutputs(q.ctx, &pb.ListWorkflowOutputsRequest{Workflow: id, PageSize: 1000, PageToken: token})
		return reply.GetFiles(), reply.GetNextPageToken(), err
	})
	whole(t, "pilots", filled, func(p *pb.Pilot) string { return p.GetContact().GetPilot() }, func(token string) ([]*pb.Pilot, string, error) {
		reply, err := people.ListPilots(q.ctx, &pb.ListPilotsRequest{PageSize: 1000, PageToken: token})
		return reply.GetPilots(), reply.GetNextPageToken(), err
	})
	whole(t, "sites", filled+1, func(s *pb.Site) string { return s.GetSettings().GetName() }, func(token string) ([]*pb.Site, string, error) {
		reply, err := people.ListSites(q.ctx, &pb.ListSitesRequest{PageToken: token})
		return reply.GetSites(), reply.GetNextPageToken(), err
	})
	whole(t, "accesses", 333, func(a *pb.Access) string { return a.GetId() }, func(token string) ([]*pb.Access, string, error) {
		reply, err := admin.ListAccess(q.ctx, &pb.ListAccessRequest{PageToken: token})
		return reply.GetAccesses(), reply.GetNextPageToken(), err
	})
	for _, by := range []pb.GetUsageRequest_By{pb.GetUsageRequest_BY_UNSPECIFIED, pb.GetUsageRequest_BY_OWNER} {
		whole(t, "usage "+by.String(), 2500, (*pb.Usage).GetOwner, func(token string) ([]*pb.Usage, string, error) {
			reply, err := admin.GetUsage(q.ctx, &pb.GetUsageRequest{By: by, PageSize: 1000, PageToken: token})
			return reply.GetUsage(), reply.GetNextPageToken(), err
		})
	}
	runs := func(size int32) []*pb.AuditEntry {
		return pageThrough(t, int(size), func(token string) ([]*pb.AuditEntry, string, error) {
			reply, err := admin.ListAudit(q.ctx, &pb.ListAuditRequest{At: timestamppb.New(time.Now().Add(-time.Hour)), PageSize: size, PageToken: token})
			return reply.GetEntries(), reply.GetNextPageToken(), err
		})
	}
	if most, one := runs(1000), runs(7); len(most) != 5*filled || len(one) != len(most) || slices.IndexFunc(one, func(e *pb.AuditEntry) bool { return e.GetSubject() == "" }) >= 0 {
		t.Errorf("%d and %d attempts run, want %d", len(most), len(one), 5*filled)
	}
}

// filled is how many sites and pilots fill adds.
const filled = 60

// fill puts six outputs with 900 kB of copies each, sites that each name 1,000 others, pilots with 512 features that run 5
// attempts each, and accounts of many persons into the store.
func (q *queue) fill(workflow string, texts []string) {
	q.t.Helper()
	features := slices.Repeat(texts, 8)
	reach := make([]task.Site, 1000)
	for i := range reach {
		reach[i] = task.Site(fmt.Sprintf("site-%050d", i))
	}
	if err := q.server.Store().Update(q.ctx, func(tx taskqueue.Tx) error {
		for i := range 6 {
			files, err := tx.Files().Load(task.LFN(fmt.Sprintf("%s:o%d", workflow, i)))
			if err != nil {
				return err
			}
			for j := range 400 {
				files[0].Replicas = append(files[0].Replicas, task.Replica{Site: "siteA", URL: fmt.Sprintf("https://se/%s/%d/%d", strings.Repeat("x", 2200), i, j)})
			}
			if err := tx.Files().Save(files...); err != nil {
				return err
			}
		}
		for i := range filled {
			site := taskqueue.SiteRecord{Name: task.Site(fmt.Sprint("wide", i))}
			site.Mode, site.Reach = taskqueue.ModeDistributed, reach
			pilot := taskqueue.PilotRecord{ID: task.PilotID(fmt.Sprint("p-", i)), Site: "siteA", State: taskqueue.PilotAlive}
			pilot.Features, pilot.Ends = features, time.Now().Add(time.Hour)
			if err := tx.Sites().Save(site); err != nil {
				return err
			}
			if err := tx.Pilots().Save(pilot); err != nil {
				return err
			}
			for j := range uint64(5) {
				ran := taskqueue.Attempt{State: taskqueue.AttemptRunning}
				ran.Outcome.Attempt = task.AttemptID{Task: "w-x/t", Lease: 7, Pilot: pilot.ID, Counter: j}
				ran.Outcome.Site, ran.Outcome.Started = "siteA", time.Now().Add(-2*time.Hour)
				if err := tx.Attempts().Save(ran); err != nil {
					return err
				}
			}
		}
		for i := range 2500 {
			if err := tx.Usage().Save(taskqueue.Usage{UsageKey: taskqueue.UsageKey{Day: "2026-11-24", Owner: fmt.Sprintf("%05d%s", i, texts[0]), Site: "siteA"}, Tasks: 1}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		q.t.Fatal(err)
	}
}

// submitInParts submits a workflow in parts of so many tasks.
func (q *queue) submitInParts(request *pb.SubmitWorkflowRequest, size int) (id string) {
	q.t.Helper()
	number := int32(0)
	for some := range slices.Chunk(request.GetTasks(), size) {
		part := &pb.SubmitWorkflowRequest{IdempotencyKey: request.GetIdempotencyKey(), Name: request.GetName(), Part: number, Tasks: some}
		number++
		if part.More = int(number)*size < len(request.GetTasks()); !part.GetMore() {
			part.Outputs = request.GetOutputs()
		}
		reply, err := q.submit().SubmitWorkflow(q.ctx, part)
		if err != nil {
			q.t.Fatal(err)
		}
		id = reply.GetWorkflowId()
	}
	return id
}

// savePilots puts living pilots in the database, as registering takes two signatures each.
func (q *queue) savePilots(n int, change func(i int, p *taskqueue.PilotRecord)) {
	q.t.Helper()
	const atOnce = 2000
	for from := 0; from < n; from += atOnce {
		if err := q.server.Store().Update(q.ctx, func(tx taskqueue.Tx) error {
			for i := from; i < min(from+atOnce, n); i++ {
				p := taskqueue.PilotRecord{ID: task.PilotID(fmt.Sprintf("p-%08d", i)), Site: "siteA", State: taskqueue.PilotAlive}
				p.Peer, p.Ends = task.PeerID(fmt.Sprintf("12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6%08d", i)), time.Now().Add(5*time.Hour)
				change(i, &p)
				if err := tx.Pilots().Save(p); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			q.t.Fatal(err)
		}
	}
}

// A site names no more sites in its reach than the queue can have with every turn.
func TestReachIsBounded(t *testing.T) {
	settings := &pb.SiteSettings{Name: "siteA"}
	for i := range 1001 {
		settings.Reach = append(settings.Reach, fmt.Sprint("site", i))
	}
	_, err := start(t).admin().AddSite(t.Context(), &pb.AddSiteRequest{Settings: settings})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID")
}

// A client that was interrupted and sends its parts again goes on; one whose file was
// changed meanwhile would make a mixture of both.
func TestPartsSentAgainAreCompared(t *testing.T) {
	q := start(t, onSQLite)
	part := func(command string) *pb.SubmitWorkflowRequest {
		described := plain("first")
		described.Argv, described.Env = []string{command}, map[string]string{"A": "1", "B": "2", "C": "3", "D": "4"}
		return &pb.SubmitWorkflowRequest{IdempotencyKey: "key", Name: "w", More: true, Tasks: []*pb.Task{described}}
	}
	for range 20 { // maps have no order
		if _, err := q.submit().SubmitWorkflow(q.ctx, part("true")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.submit().SubmitWorkflow(q.ctx, part("false")); status.Code(err) != codes.Aborted {
		t.Errorf("another first part: %v", err)
	}
}
