package server_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// pageThrough collects a list page by page and checks that no page is larger
// than asked.
func pageThrough[T any](t *testing.T, size int, page func(token string) ([]T, string, error)) []T {
	t.Helper()
	var all []T
	for token := ""; ; {
		items, next, err := page(token)
		if err != nil {
			t.Fatal(err)
		}
		if len(items) > size || len(items) == 0 && next != "" {
			t.Fatalf("a page of %d items, %d were asked for", len(items), size)
		}
		all = append(all, items...)
		if token = next; token == "" {
			return all
		}
	}
}

func TestListsByPage(t *testing.T) {
	onBoth(t, func(t *testing.T, store option) {
		q := start(t, store)
		q.addSite("siteA")
		people := q.submit()
		wide := &pb.SubmitWorkflowRequest{IdempotencyKey: "wide", Name: "wide"}
		for i := range 7 {
			made := plain(fmt.Sprintf("t%d", i))
			made.Outputs = []*pb.Binding{{Lfn: fmt.Sprintf("o%d", i), Name: "o"}}
			wide.Tasks, wide.Outputs = append(wide.Tasks, made), append(wide.Outputs, fmt.Sprintf("o%d", i))
		}
		id := q.mustSubmit(wide)
		for i := range 4 {
			q.mustSubmit(single(fmt.Sprintf("w%d", i)))
			q.join("siteA")
		}
		workflows := pageThrough(t, 2, func(token string) ([]*pb.Workflow, string, error) {
			reply, err := people.ListWorkflows(q.ctx, &pb.ListWorkflowsRequest{PageSize: 2, PageToken: token})
			return reply.GetWorkflows(), reply.GetNextPageToken(), err
		})
		if len(workflows) != 5 || workflows[0].GetName() != "w3" || workflows[4].GetId() != id {
			t.Errorf("workflows %v", workflows)
		}
		for _, full := range []bool{false, true} {
			tasks := pageThrough(t, 3, func(token string) ([]*pb.TaskInfo, string, error) {
				reply, err := people.ListTasks(q.ctx, &pb.ListTasksRequest{Workflow: "wide", PageSize: 3, PageToken: token, Full: full})
				return reply.GetTasks(), reply.GetNextPageToken(), err
			})
			for i, info := range tasks {
				if info.GetTask().GetId() != fmt.Sprintf("%s/t%d", id, i) || full != (len(info.GetTask().GetArgv()) > 0) {
					t.Errorf("task %d is %v", i, info)
				}
			}
			if len(tasks) != 7 {
				t.Errorf("%d tasks", len(tasks))
			}
		}
		outputs := pageThrough(t, 3, func(token string) ([]*pb.File, string, error) {
			reply, err := people.ListWorkflowOutputs(q.ctx, &pb.ListWorkflowOutputsRequest{Workflow: id, PageSize: 3, PageToken: token})
			return reply.GetFiles(), reply.GetNextPageToken(), err
		})
		files := pageThrough(t, 4, func(token string) ([]*pb.File, string, error) {
			reply, err := people.ListFiles(q.ctx, &pb.ListFilesRequest{Prefix: id + ":", PageSize: 4, PageToken: token})
			return reply.GetFiles(), reply.GetNextPageToken(), err
		})
		pilots := pageThrough(t, 3, func(token string) ([]*pb.Pilot, string, error) {
			reply, err := people.ListPilots(q.ctx, &pb.ListPilotsRequest{PageSize: 3, PageToken: token})
			return reply.GetPilots(), reply.GetNextPageToken(), err
		})
		if len(outputs) != 7 || len(files) != 7 || len(pilots) != 4 {
			t.Errorf("%d outputs, %d files, %d pilots", len(outputs), len(files), len(pilots))
		}
		ready, err := people.ListTasks(q.ctx, &pb.ListTasksRequest{Workflow: id, States: []pb.TaskState{pb.TaskState_TASK_STATE_DONE}})
		if err != nil || len(ready.GetTasks()) != 0 {
			t.Errorf("done tasks: %v, %v", ready, err)
		}
	})
}

func TestPageTokensOfAnotherListAreRefused(t *testing.T) {
	q := start(t)
	people := q.submit()
	q.mustSubmit(single("a"))
	q.mustSubmit(single("b"))
	list, err := people.ListWorkflows(q.ctx, &pb.ListWorkflowsRequest{PageSize: 1})
	if err != nil || list.GetNextPageToken() == "" {
		t.Fatal(list, err)
	}
	_, err = people.ListTasks(q.ctx, &pb.ListTasksRequest{Workflow: "a", PageToken: list.GetNextPageToken()})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID")
	_, err = people.ListFiles(q.ctx, &pb.ListFilesRequest{PageToken: "%%"})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID")
	_, err = people.ListPilots(q.ctx, &pb.ListPilotsRequest{PageSize: -1})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID")
}

func TestFiles(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	if _, err := q.admin().AddSite(q.ctx, &pb.AddSiteRequest{Settings: &pb.SiteSettings{Name: "bare"}}); err != nil {
		t.Fatal(err)
	}
	people := q.submit()
	file := &pb.File{Lfn: "db.fa", SizeBytes: 7, Adler32: "0a1b2c3d", Announced: []string{"siteA"},
		Replicas: []*pb.Replica{{Site: "siteA", Url: "file:///se/siteA/db.fa"}}}
	if reply, err := people.RegisterFiles(q.ctx, &pb.RegisterFilesRequest{Files: []*pb.File{file}}); err != nil || reply.GetRegistered() != 1 {
		t.Fatal(reply, err)
	}
	for _, name := range []string{"db.fa", "vo:db.fa"} {
		found, err := people.LocateFile(q.ctx, &pb.LocateFileRequest{Lfn: name})
		if err != nil || found.GetFile().GetLfn() != "vo:db.fa" || len(found.GetFile().GetReplicas()) != 1 || len(found.GetFile().GetAnnounced()) != 0 {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	_, err := people.LocateFile(q.ctx, &pb.LocateFileRequest{Lfn: "absent"})
	wantRefusal(t, err, codes.NotFound, "NOT_FOUND")
	file.SizeBytes = 8
	_, err = people.RegisterFiles(q.ctx, &pb.RegisterFilesRequest{Files: []*pb.File{file}})
	wantRefusal(t, err, codes.Aborted, "CONFLICT")
	for _, url := range []string{"", "ftp://x/y", "file://host/y", "https:///y", "https://u:p@h/y", "file:///a\nb", "http://[::1"} {
		bad := &pb.File{Lfn: "other", Replicas: []*pb.Replica{{Site: "siteA", Url: url}}}
		_, err = people.RegisterFiles(q.ctx, &pb.RegisterFilesRequest{Files: []*pb.File{bad}})
		wantRefusal(t, err, codes.InvalidArgument, "INVALID")
	}
	many := &pb.File{Lfn: "many"}
	for i := range 501 {
		many.Replicas = append(many.Replicas, &pb.Replica{Site: "siteA", Url: fmt.Sprint("file:///se/siteA/", i)})
	}
	long := &pb.File{Lfn: "long", Replicas: []*pb.Replica{{Site: "siteA", Url: "file:///se/siteA/" + strings.Repeat("w-abcdefghij/", 5) + "x"}}}
	own := &pb.File{Lfn: "own", Replicas: []*pb.Replica{{Site: "siteA", Url: "http://127.0.0.1:8080/x"}}}
	for _, bad := range []*pb.File{many, long, own} {
		_, err = people.RegisterFiles(q.ctx, &pb.RegisterFilesRequest{Files: []*pb.File{bad}})
		wantRefusal(t, err, codes.InvalidArgument, "INVALID")
	}
	many.Replicas = many.Replicas[:500]
	if _, err := people.RegisterFiles(q.ctx, &pb.RegisterFilesRequest{Files: []*pb.File{many}}); err != nil {
		t.Error(err)
	}
	many.Replicas = []*pb.Replica{{Site: "siteA", Url: "file:///se/siteA/one-more"}}
	_, err = people.RegisterFiles(q.ctx, &pb.RegisterFilesRequest{Files: []*pb.File{many}})
	wantRefusal(t, err, codes.ResourceExhausted, "OVER_LIMIT")
	elsewhere := &pb.File{Lfn: "other", Replicas: []*pb.Replica{{Site: "nowhere", Url: "file:///x"}}}
	_, err = people.RegisterFiles(q.ctx, &pb.RegisterFilesRequest{Files: []*pb.File{elsewhere}})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID")
	plan, err := people.PlanUpload(q.ctx, &pb.PlanUploadRequest{})
	if err != nil || len(plan.GetTargets()) != 1 || plan.GetTargets()[0].GetStorageUrl() != "file:///se/siteA" {
		t.Errorf("plan %v, %v", plan, err)
	}
	_, err = people.PlanUpload(q.ctx, &pb.PlanUploadRequest{Sites: []string{"bare"}})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID")
	_, err = people.PlanUpload(q.ctx, &pb.PlanUploadRequest{Sites: []string{"nowhere"}})
	wantRefusal(t, err, codes.NotFound, "NOT_FOUND")
}

// What the rules refuse reaches the client with the thing named.
func TestSubmissionRefusals(t *testing.T) {
	q := start(t)
	people := q.submit()
	twoMakers := single("two")
	twoMakers.Tasks = []*pb.Task{plain("a"), plain("b")}
	for _, made := range twoMakers.Tasks {
		made.Outputs = []*pb.Binding{{Lfn: "same", Name: "o"}}
	}
	escape := single("escape")
	escape.Tasks[0].Inputs = []*pb.Binding{{Lfn: "a/../b", Name: "b"}}
	manyInputs := single("many")
	manyInputs.Tasks[0].Inputs = make([]*pb.Binding, 10_001)
	for i := range manyInputs.Tasks[0].Inputs {
		manyInputs.Tasks[0].Inputs[i] = &pb.Binding{Lfn: fmt.Sprint("f", i), Name: fmt.Sprint("f", i)}
	}
	noKey := single("parts")
	noKey.IdempotencyKey, noKey.More = "", true
	for want, request := range map[string]*pb.SubmitWorkflowRequest{"same": twoMakers, "a/../b": escape, "10001 inputs": manyInputs, "idempotency_key": noKey} {
		_, err := people.SubmitWorkflow(q.ctx, request)
		wantRefusal(t, err, codes.InvalidArgument, "INVALID")
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal does not name %q: %v", want, err)
		}
	}
	late := single("late")
	late.Part = 3
	_, err := people.SubmitWorkflow(q.ctx, late)
	wantRefusal(t, err, codes.Aborted, "CONFLICT")
	if list, err := people.ListWorkflows(q.ctx, &pb.ListWorkflowsRequest{}); err != nil || len(list.GetWorkflows()) != 0 {
		t.Errorf("refused submissions left %v, %v", list, err)
	}
}

// TestRequestsAreCountedAtOnce: who reads the counts sees those that were not
// written yet.
func TestRequestsAreCountedAtOnce(t *testing.T) {
	q := start(t, func(c *serverConfig) { c.Timing.Persist = time.Hour })
	q.addSite("siteA")
	q.join("siteA").introduce()
	site, err := q.admin().GetSite(q.ctx, &pb.GetSiteRequest{Name: "siteA"})
	if err != nil {
		t.Fatal(err)
	}
	if got := site.GetSite().GetRequestsByMethod(); got["Register"] != 1 || got["Sync"] == 0 {
		t.Errorf("requests %v after one Register and a Sync", got)
	}
	want := `pilotage_queue_requests_total{method="Register"} 1`
	if _, text := q.get("/metrics"); !strings.Contains(text, want) {
		t.Errorf("/metrics lacks %s", want)
	}
}

// Counts that are being written while somebody reads them are not missing.
func TestRequestsAreCountedWhileTheyAreWritten(t *testing.T) {
	q := start(t, onSQLite, func(c *serverConfig) { c.Timing.ClockTick, c.Timing.Persist = time.Millisecond, time.Millisecond })
	q.addSite("siteA")
	for n := range 30 {
		q.join("siteA")
		want := fmt.Sprintf("pilotage_queue_requests_total{method=\"Register\"} %d\n", n+1)
		if _, text := q.get("/metrics"); !strings.Contains(text, want) {
			t.Fatalf("after %d Registers /metrics lacks %s", n+1, want)
		}
	}
}

func TestMetricNames(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	p := q.join("siteA")
	p.introduce()
	for _, want := range []string{
		`pilotage_reads_total{site="siteA",source="local"} 0`,
		`pilotage_reads_total{site="siteA",source="peer"} 0`,
		`pilotage_reads_total{site="siteA",source="se"} 0`,
		`pilotage_reads_total{site="siteA",source="remote"} 0`,
		`pilotage_read_bytes_total{site="siteA",source="se"} 0`,
		`pilotage_se_bytes_saved_total{site="siteA"} 0`,
		`pilotage_slots{site="siteA",state="free"} 2`,
		`pilotage_slots{site="siteA",state="busy"} 0`,
		`pilotage_queue_requests_total{method="Register"} 1`,
		`pilotage_queue_requests_total{method="Sync"} 1`,
		`pilotage_inter_task_delay_seconds_bucket{le="0.001"} 0`,
		`pilotage_inter_task_delay_seconds_count 0`,
		`pilotage_nodes_set_back{site="siteA"} 0`,
		`pilotage_site_mode{mode="distributed",site="siteA"} 1`,
		`pilotage_site_fallen_back{site="siteA"} 0`,
		`pilotage_master_term{site="siteA"} 1`,
		`pilotage_master_changes_total{site="siteA"} 0`,
		`pilotage_duplicate_outcomes_total 0`,
		`pilotage_stale_term_rejects_total 0`,
		`go_goroutines`,
		`process_resident_memory_bytes`,
	} {
		q.eventually("/metrics has "+want, func() bool {
			code, text := q.get("/metrics")
			return code == 200 && strings.Contains(text, "\n"+want)
		})
	}
}

func TestQuantile(t *testing.T) {
	buckets := make([]uint64, 18)
	if got := server.Quantile(nil, .5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	buckets[9] = 100 // 0.2 to 0.5 s
	for q, want := range map[float64]float64{.5: .35, .99: .497, 0: .2} {
		if got := server.Quantile(buckets, q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := server.Quantile(append(make([]uint64, 17), 5), .5); got != 300 {
		t.Errorf("beyond the last bound: %v", got)
	}
}
