package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// person connects with a new submit access of a person.
func (q *queue) person(name string, groups ...string) *client {
	q.t.Helper()
	made, err := q.admin().CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "submit", Person: name, Groups: groups})
	if err != nil {
		q.t.Fatal(err)
	}
	var access identity.AccessFile
	if err := json.Unmarshal(made.GetAccessFile(), &access); err != nil {
		q.t.Fatal(err)
	}
	if access.Person != name || !slices.Equal(access.Groups, groups) {
		q.t.Errorf("an access file of %s %v", access.Person, access.Groups)
	}
	return q.dial(access.Token, nil)
}

// What a person may do with the work of another, by how it is shared.
func TestWorkBelongsToPersons(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	alice, bob, eve := q.person("alice", "higgs"), q.person("bob", "higgs", "top"), q.person("eve")
	mallory := single("mallory")
	mallory.Group = "higgs"
	_, err := eve.SubmitWorkflow(q.ctx, mallory)
	wantRefusal(t, err, codes.PermissionDenied, "REFUSED")
	ids := map[string]string{}
	for _, group := range []string{"", "higgs", taskqueue.Everybody} {
		request := single("w" + group)
		if group == taskqueue.Everybody {
			request = single("public")
		}
		request.Group = group
		request.Tasks[0].Outputs = []*pb.Binding{{Lfn: "out", Name: "out"}}
		request.Outputs = []string{"out"}
		reply, err := alice.SubmitWorkflow(q.ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		ids[group] = reply.GetWorkflowId()
	}
	same, err := bob.SubmitWorkflow(q.ctx, single("w")) // with the same key
	if err != nil || same.GetExisted() {
		t.Fatal(same, err)
	}
	for _, c := range []struct {
		who, group    string
		client        *client
		sees, changes bool
	}{
		{"alice", "", alice, true, true}, {"admin", "", q.admin(), true, true}, {"bob", "", bob, false, false}, {"eve", "", eve, false, false},
		{"bob", "higgs", bob, true, true}, {"eve", "higgs", eve, false, false}, {"reader", "", q.with("read-only", ""), true, false},
		{"eve", taskqueue.Everybody, eve, true, false}, {"bob", taskqueue.Everybody, bob, true, false},
	} {
		id := ids[c.group]
		one := id + "/only"
		if _, err := c.client.GetWorkflow(q.ctx, &pb.GetWorkflowRequest{Workflow: id}); err != nil {
			t.Errorf("%s asks how a workflow does: %v", c.who, err)
		}
		looks := map[string]func() error{
			"tasks": func() error { _, err := c.client.ListTasks(q.ctx, &pb.ListTasksRequest{Workflow: id}); return err },
			"task":  func() error { _, err := c.client.GetTask(q.ctx, &pb.GetTaskRequest{TaskId: one}); return err },
			"logs":  func() error { _, err := c.client.GetTaskLogs(q.ctx, &pb.GetTaskLogsRequest{TaskId: one}); return err },
			"why":   func() error { _, err := c.client.ExplainTask(q.ctx, &pb.ExplainTaskRequest{TaskId: one}); return err },
			"outputs": func() error {
				_, err := c.client.ListWorkflowOutputs(q.ctx, &pb.ListWorkflowOutputsRequest{Workflow: id})
				return err
			},
			"file": func() error {
				_, err := c.client.LocateFile(q.ctx, &pb.LocateFileRequest{Lfn: id + ":out"})
				return err
			},
		}
		for what, look := range looks {
			if refused := refusal(look()) == "REFUSED"; refused == c.sees {
				t.Errorf("%s looks at the %s of a workflow shared with %q: refused %v", c.who, what, c.group, refused)
			}
		}
		listed, err := c.client.ListFiles(q.ctx, &pb.ListFilesRequest{Prefix: id + ":"})
		if err != nil || (len(listed.GetFiles()) == 1) != c.sees {
			t.Errorf("%s lists the files of a workflow shared with %q: %v, %v", c.who, c.group, listed, err)
		}
		for i, folder := range []string{id, "x/../" + id + "/", "%77" + id[1:]} {
			if c.who == "reader" {
				break // may describe no file at all
			}
			described := &pb.File{Lfn: fmt.Sprint("taken-by-", c.who, id, i), Replicas: []*pb.Replica{{
				Site: "siteA", Url: "file:///se/siteA/" + folder + "/only/g1-l1-p-aaaaaaaa-1/out",
			}}}
			_, err := c.client.RegisterFiles(q.ctx, &pb.RegisterFilesRequest{Files: []*pb.File{described}})
			taker := single(described.GetLfn())
			taker.Files, taker.DryRun = []*pb.File{described}, true
			_, again := c.client.SubmitWorkflow(q.ctx, taker)
			if (refusal(err) == "REFUSED") == c.sees || (refusal(again) == "REFUSED") == c.sees {
				t.Errorf("%s names the copy %s of a workflow shared with %q: %v, %v", c.who, described.GetReplicas()[0].GetUrl(), c.group, err, again)
			}
		}
		for what, change := range map[string]func() error{
			"workflow": func() error {
				_, err := c.client.RetryWorkflow(q.ctx, &pb.RetryWorkflowRequest{Workflow: id})
				return err
			},
			"task": func() error { _, err := c.client.CancelTask(q.ctx, &pb.CancelTaskRequest{TaskId: one}); return err },
			"name": func() error {
				_, err := c.client.CancelWorkflow(q.ctx, &pb.CancelWorkflowRequest{Workflow: "alice/" + map[string]string{"": "w", "higgs": "whiggs", "*": "public"}[c.group]})
				return err
			},
		} {
			if reason := refusal(change()); slices.Contains([]string{"REFUSED", "FORBIDDEN"}, reason) == c.changes {
				t.Errorf("%s changes the %s of a workflow shared with %q: %q", c.who, what, c.group, reason)
			}
		}
	}
	for who, c := range map[string]*client{"alice": alice, "bob": bob} {
		found, err := c.GetWorkflow(q.ctx, &pb.GetWorkflowRequest{Workflow: "w"})
		if err != nil || found.GetWorkflow().GetOwner() != who {
			t.Errorf("%s asks for w and is shown that of %s, %v", who, found.GetWorkflow().GetOwner(), err)
		}
	}
	mine, err := alice.ListWorkflows(q.ctx, &pb.ListWorkflowsRequest{Mine: true})
	if err != nil || len(mine.GetWorkflows()) != 3 || mine.GetWorkflows()[0].GetGroup() != "*" {
		t.Errorf("alice's: %v, %v", mine, err)
	}
}

// refusal is the reason of an error, "" of none.
func refusal(err error) string {
	reason, _, _ := taskpb.Refusal(err)
	return reason
}

// A site's operator operates that site and no other.
func TestWhatAnOperatorMay(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	q.addSite("siteB")
	own, second, other := q.join("siteA"), q.join("siteA"), q.join("siteB")
	o := q.with("operator", "siteA")
	settings := func(site string) *pb.AddSiteRequest {
		return &pb.AddSiteRequest{Settings: &pb.SiteSettings{Name: site, RemoteRead: true, StorageUrl: "file:///se/" + site}}
	}
	stealing := settings("siteA")
	stealing.Settings.SeTokenFile = "/etc/passwd"
	foreign, err := q.admin().CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "pilot", Site: "siteB"})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ own, other func() error }{
		"settings":                  {func() error { _, err := o.AddSite(q.ctx, settings("siteA")); return err }, func() error { _, err := o.AddSite(q.ctx, settings("siteB")); return err }},
		"files of the queue's host": {func() error { return nil }, func() error { _, err := o.AddSite(q.ctx, stealing); return err }},
		"drain": {func() error {
			_, err := o.DrainSite(q.ctx, &pb.DrainSiteRequest{Name: "siteA", Resume: true})
			return err
		},
			func() error { _, err := o.DrainSite(q.ctx, &pb.DrainSiteRequest{Name: "siteB"}); return err }},
		"drain of a pilot": {func() error { _, err := o.DrainPilot(q.ctx, &pb.DrainPilotRequest{PilotId: own.id}); return err },
			func() error { _, err := o.DrainPilot(q.ctx, &pb.DrainPilotRequest{PilotId: other.id}); return err }},
		"access": {func() error {
			_, err := o.CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "pilot", Site: "siteA"})
			return err
		},
			func() error {
				_, err := o.CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "pilot", Site: "siteB"})
				return err
			}},
		"access of people": {func() error { return nil }, func() error { _, err := o.CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "submit"}); return err }},
		"revocation": {func() error { _, err := o.RevokeAccess(q.ctx, &pb.RevokeAccessRequest{Id: second.id}); return err },
			func() error { _, err := o.RevokeAccess(q.ctx, &pb.RevokeAccessRequest{Id: other.id}); return err }},
		"revocation of a token": {func() error { return nil }, func() error {
			_, err := o.RevokeAccess(q.ctx, &pb.RevokeAccessRequest{Id: foreign.GetId()})
			return err
		}},
		"ban": {func() error {
			_, err := o.Ban(q.ctx, &pb.BanRequest{Ban: &pb.Ban{Kind: "node", Name: "n1"}})
			return err
		},
			func() error {
				_, err := o.Ban(q.ctx, &pb.BanRequest{Ban: &pb.Ban{Kind: "site", Name: "siteB"}})
				return err
			}},
		"ban of a person": {func() error { return nil }, func() error {
			_, err := o.Ban(q.ctx, &pb.BanRequest{Ban: &pb.Ban{Kind: "person", Name: "alice"}})
			return err
		}},
	} {
		if err := c.own(); err != nil {
			t.Errorf("%s at the own site: %v", what, err)
		}
		if reason := refusal(c.other()); reason != "FORBIDDEN" {
			t.Errorf("%s elsewhere: %q", what, reason)
		}
	}
	list, err := o.ListAccess(q.ctx, &pb.ListAccessRequest{})
	if err != nil || slices.ContainsFunc(list.GetAccesses(), func(a *pb.Access) bool { return a.GetSite() != "siteA" }) {
		t.Errorf("accesses: %v, %v", list, err)
	}
	if bans, err := o.ListBans(q.ctx, &pb.ListBansRequest{}); err != nil || len(bans.GetBans()) != 1 || bans.GetBans()[0].GetSite() != "siteA" {
		t.Errorf("bans: %v, %v", bans, err)
	}
}

// A ban counts at once, also in calls under way, and after a restart.
func TestBans(t *testing.T) {
	q := start(t, onSQLite)
	for _, site := range []string{"siteA", "siteB", "siteC"} {
		q.addSite(site)
	}
	admin := q.admin()
	ban := func(kind, name string) *pb.BanResponse {
		t.Helper()
		reply, err := admin.Ban(q.ctx, &pb.BanRequest{Ban: &pb.Ban{Kind: kind, Name: name, Why: "it steals"}})
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	alice := q.person("alice")
	submitted, err := alice.SubmitWorkflow(q.ctx, single("w"))
	if err != nil {
		t.Fatal(err)
	}
	watch, err := alice.WatchWorkflow(q.ctx, &pb.WatchWorkflowRequest{Workflow: submitted.GetWorkflowId()})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	if reply := ban("person", "alice"); reply.GetTasks() != 1 {
		t.Errorf("a person: %v", reply)
	}
	for err = nil; err == nil; _, err = watch.Recv() {
	}
	wantRefusal(t, err, codes.PermissionDenied, "BANNED")
	_, err = admin.Ban(q.ctx, &pb.BanRequest{Ban: &pb.Ban{Kind: "person", Name: taskqueue.AdminPerson}})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID")

	byNode, bySite, byToken := q.join("siteA"), q.join("siteB"), q.join("siteC")
	made, err := admin.CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "submit", Person: "carol"})
	if err != nil {
		t.Fatal(err)
	}
	var carols identity.AccessFile
	if err := json.Unmarshal(made.GetAccessFile(), &carols); err != nil {
		t.Fatal(err)
	}
	follows, err := q.dial(carols.Token, nil).WatchEvents(q.ctx, &pb.WatchEventsRequest{Follow: true})
	if err == nil {
		_, err = follows.Recv() // of a pilot that has joined
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RevokeAccess(q.ctx, &pb.RevokeAccessRequest{Id: made.GetId()}); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; _, err = follows.Recv() {
	}
	wantRefusal(t, err, codes.Unauthenticated, "ACCESS_REVOKED")
	bySite.introduce()
	parked := bySite.park(q.ctx)
	if reply := ban("site", "siteB"); len(reply.GetPilots()) != 1 {
		t.Errorf("a site: %v", reply)
	}
	wantRefusal(t, q.await(parked).err, codes.PermissionDenied, taskpb.ReasonRevoked)
	id, _, err := identity.ParseToken(q.access("pilot-siteC").Token)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []bool{false, true} {
		reply, err := admin.RevokeAccess(q.ctx, &pb.RevokeAccessRequest{Id: id, Pilots: end})
		if err != nil || !slices.Equal(reply.GetPilots(), []string{byToken.id}) {
			t.Errorf("an access and the pilots that registered with it: %v, %v", reply, err)
		}
		if _, err := byToken.ListPeers(q.ctx, &pb.ListPeersRequest{Site: "siteC"}); (err != nil) != end {
			t.Errorf("a pilot whose access was revoked, with its pilots %v: %v", end, err)
		}
	}
	if reply := ban("node", "node"); len(reply.GetPilots()) != 1 { // which all of them name as their host
		t.Errorf("a node: %v", reply)
	}
	if reason := refusal(errOf(byNode.ListPeers(q.ctx, &pb.ListPeersRequest{Site: "siteA"}))); reason != taskpb.ReasonRevoked {
		t.Errorf("a pilot of a banned node: %q", reason)
	}
	q.stop()
	q = startIn(t, q.dir, nil, onSQLite)
	admin = q.admin()
	register := func(site, token string) error {
		return errOf(q.dial(token, nil).Register(q.ctx, registration(t, site, pilotKey(t))))
	}
	pilots := q.access("pilot-siteA").Token
	if reason := refusal(register("siteA", pilots)); reason != "REFUSED" {
		t.Errorf("a pilot of a banned node registers: %q", reason)
	}
	unban := func(kind, name string) error {
		return errOf(admin.Unban(q.ctx, &pb.UnbanRequest{Ban: &pb.Ban{Kind: kind, Name: name}}))
	}
	if err := unban("node", "node"); err != nil {
		t.Error(err)
	}
	if err := register("siteA", pilots); err != nil {
		t.Errorf("after the ban: %v", err)
	}
	if reason := refusal(register("siteB", q.access("pilot-siteB").Token)); reason != "REFUSED" {
		t.Errorf("a pilot of a banned site registers: %q", reason)
	}
	wantRefusal(t, unban("node", "node"), codes.NotFound, "NOT_FOUND")
	if bans, err := admin.ListBans(q.ctx, &pb.ListBansRequest{}); err != nil || len(bans.GetBans()) != 2 || bans.GetBans()[0].GetBy() != "admin" || bans.GetBans()[0].GetWhy() != "it steals" {
		t.Errorf("bans: %v, %v", bans, err)
	}
}

// errOf is the error of a call whose answer does not matter.
func errOf[T any](_ T, err error) error { return err }

// Whose work ran where and when is told by the audit log, while it runs and after, and
// who did what with which access.
func TestTheAuditLogTellsWhoRanWhat(t *testing.T) {
	began := time.Now()
	q, p, _ := cachedOutput(t, onSQLite)
	trace := func(c *client, request *pb.ListAuditRequest) []*pb.AuditEntry {
		t.Helper()
		return pageThrough(t, 100, func(token string) ([]*pb.AuditEntry, string, error) {
			request.PageToken = token
			reply, err := c.ListAudit(q.ctx, request)
			return reply.GetEntries(), reply.GetNextPageToken(), err
		})
	}
	_, err := q.admin().ListAudit(q.ctx, &pb.ListAuditRequest{Kinds: []string{"rann"}})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID")
	_, err = q.admin().Ban(q.ctx, &pb.BanRequest{Ban: &pb.Ban{Kind: "node", Name: "node", Site: "siteAA"}})
	wantRefusal(t, err, codes.NotFound, "NOT_FOUND")
	ran := trace(q.admin(), &pb.ListAuditRequest{Kinds: []string{"ran"}})
	if len(ran) != 1 {
		t.Fatal(ran)
	}
	ran = trace(q.admin(), &pb.ListAuditRequest{At: ran[0].GetStarted(), Node: "node"})
	if len(ran) != 1 || ran[0].GetKind() != "ran" || ran[0].GetPerson() != "default" || ran[0].GetPilot() != p.id || ran[0].GetSite() != "siteA" || ran[0].GetProcess() != 4711 || ran[0].GetBatchJob() != "slurm:77" {
		t.Errorf("at the node: %v", ran)
	}
	if ran := trace(q.admin(), &pb.ListAuditRequest{At: timestamppb.New(began.Add(-time.Hour))}); len(ran) != 0 {
		t.Errorf("an hour before: %v", ran)
	}
	before := timestamppb.New(ran[0].GetStarted().AsTime().Add(-time.Minute))
	if ran := trace(q.admin(), &pb.ListAuditRequest{At: before, Until: ran[0].GetStarted()}); len(ran) != 1 {
		t.Errorf("in the minute in which it began: %v", ran)
	}
	if all := trace(q.with("operator", "siteA"), &pb.ListAuditRequest{Kinds: []string{"registered", "submitted"}}); len(all) != 1 || all[0].GetPilot() != p.id || all[0].GetAccess() == "" {
		t.Errorf("an operator sees %v", all)
	}
	_, err = q.with("operator", "siteA").ListAudit(q.ctx, &pb.ListAuditRequest{Site: "siteB"})
	wantRefusal(t, err, codes.PermissionDenied, "FORBIDDEN")
	if submitted := trace(q.admin(), &pb.ListAuditRequest{Kinds: []string{"submitted"}, PageSize: 1}); len(submitted) != 1 || submitted[0].GetAccess() == "" {
		t.Errorf("submitted: %v", submitted)
	}
	if check, err := q.admin().VerifyAudit(q.ctx, &pb.VerifyAuditRequest{}); err != nil || check.GetEntries() < 5 || len(check.GetDigest()) != 32 {
		t.Errorf("%v, %v", check, err)
	}
}

// How attempts of others failed is told to those who look after the site only: it names
// files and programs of their owners.
func TestFailuresAreTheirOwners(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	q.mustSubmit(single("failing"))
	p := q.join("siteA")
	reply, err := p.Sync(q.ctx, p.report(0))
	if err != nil || len(reply.GetLeases()) != 1 {
		t.Fatal(reply, err)
	}
	failed := p.outcome(reply.GetLeases()[0], 0)
	failed.Ok, failed.Failure, failed.Reason = false, pb.FailureKind_FAILURE_KIND_PAYLOAD_FAILED, "output secret.dat is missing"
	report := p.report(0, reply.GetLeases()...)
	report.Outcomes = []*pb.Outcome{failed}
	if _, err := p.Sync(q.ctx, report); err != nil {
		t.Fatal(err)
	}
	for who, c := range map[string]struct {
		*client
		told bool
	}{
		"a user": {q.person("bob"), false}, "an admin": {q.admin(), true}, "who looks at all": {q.with("read-only", ""), true},
		"the site's operator": {q.with("operator", "siteA"), true},
	} {
		one, err := c.GetPilot(q.ctx, &pb.GetPilotRequest{PilotId: p.id})
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.ListPilots(q.ctx, &pb.ListPilotsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, told := range []*pb.Pilot{one.GetPilot(), list.GetPilots()[0]} {
			if (told.GetLastError() != "") != c.told || told.GetFailed() != 1 {
				t.Errorf("%s is told %q of %d failures", who, told.GetLastError(), told.GetFailed())
			}
		}
	}
}

// An error that quotes what was sent, however long that is, reaches who sent it.
func TestLongNamesAreRefusedLegibly(t *testing.T) {
	q := start(t)
	long := strings.Repeat("a", 10<<20)
	_, err := q.submit().GetWorkflow(q.ctx, &pb.GetWorkflowRequest{Workflow: long})
	wantRefusal(t, err, codes.NotFound, "NOT_FOUND")
	if text := err.Error(); len(text) > 10<<10 {
		t.Errorf("the error has %d bytes", len(text))
	}
}

// What a site could not run says what somebody's tasks require: those learn it who look
// after the site; all others, how many pilots were asked.
func TestRequirementsAreTheirOwners(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	q.addSite("siteB")
	secret := single("secret")
	secret.Tasks[0].Require = `pilot.site == "siteA" && pilot.cores > 1000`
	q.mustSubmit(secret)
	p := q.join("siteA")
	p.introduce()
	report := p.report(0)
	report.Capacity.Stopped, report.Capacity.StoppedWhy = 1, "the last: pilot.cores of secret"
	report.Capacity.FreeSlots, report.Capacity.Slots, report.Capacity.StoppedSlots = 0, 0, 2
	report.Refused = []*pb.Refusal{{
		Require: secret.Tasks[0].Require, Resources: secret.Tasks[0].Resources, Pilots: 1,
		Clauses: []*pb.ClauseCount{{Clause: "pilot.cores > 1000", Pilots: 1}},
	}}
	if _, err := p.Sync(q.ctx, report); err != nil {
		t.Fatal(err)
	}
	for who, c := range map[string]struct {
		*client
		told bool
	}{
		"a user": {q.person("bob"), false}, "the operator of another site": {q.with("operator", "siteB"), false},
		"an admin": {q.admin(), true}, "who looks at all": {q.with("read-only", ""), true}, "the site's operator": {q.with("operator", "siteA"), true},
	} {
		one, err := c.GetSite(q.ctx, &pb.GetSiteRequest{Name: "siteA"})
		if err != nil {
			t.Fatal(err)
		}
		if refused := one.GetSite().GetRefused(); len(refused) != 1 || refused[0].GetPilots() != 1 {
			t.Errorf("%s is told of %v", who, refused)
		}
		list, err := c.ListSites(q.ctx, &pb.ListSitesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		told := []proto.Message{one, list}
		events, err := c.WatchEvents(q.ctx, &pb.WatchEventsRequest{Site: "siteA"})
		if err != nil {
			t.Fatal(err)
		}
		news, err := events.Recv()
		if err != nil || !strings.Contains(news.String(), "class-refused") {
			t.Fatal(news, err)
		}
		if told = append(told, news); who != "the operator of another site" { // who may not ask
			demand, err := c.GetDemand(q.ctx, &pb.GetDemandRequest{Site: "siteA"})
			if err != nil || len(demand.GetClasses()) != 1 || demand.GetClasses()[0].GetTasks() != 1 {
				t.Fatal(demand, err)
			}
			told = append(told, demand)
		}
		for _, message := range told {
			if text := prototext.Format(message); strings.Contains(text, "pilot.cores") != c.told {
				t.Errorf("%s is told %s", who, text)
			}
		}
	}
	own := q.mustSubmit(single("own")) // whose owner asks why it waits
	for c, told := range map[*client]bool{q.submit(): false, q.admin(): true} {
		explained, err := c.ExplainTask(q.ctx, &pb.ExplainTaskRequest{TaskId: own + "/only"})
		text := prototext.Format(explained)
		if err != nil || !strings.Contains(text, "1 of 1 pilot takes no new work") || strings.Contains(text, "pilot.cores") != told {
			t.Errorf("it waits because %s, %v", text, err)
		}
	}
}
