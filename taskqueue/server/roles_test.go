package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// rights is written from the issue, apart from the server's own table: who
// may call what. A missing method fails the test.
var rights = map[string]string{
	"TaskService/*": "admin submit", "TaskService/GetUsage": "admin submit reader", "TaskService/GetWorkflow": "admin submit reader", "TaskService/ListWorkflows": "admin submit reader", "TaskService/WatchWorkflow": "admin submit reader",
	"TaskService/ListWorkflowOutputs": "admin submit reader", "TaskService/GetTask": "admin submit reader", "TaskService/ListTasks": "admin submit reader", "TaskService/ExplainTask": "admin submit reader", "TaskService/GetTaskLogs": "admin submit reader", "TaskService/GetWorkflowSteps": "admin submit reader",
	"FileService/*": "admin submit", "FileService/ListFiles": "admin submit reader", "FileService/LocateFile": "admin submit reader",

	"SiteService/AddSite": "admin operator", "SiteService/DrainSite": "admin operator", "SiteService/RemoveSite": "admin", "SiteService/CreateAccess": "admin factory operator", "SiteService/GetDemand": "admin submit reader factory operator", "SiteService/WatchEvents": "admin submit reader operator",
	"SiteService/RevokeAccess": "admin operator", "SiteService/ListAccess": "admin operator",
	"SiteService/ListAudit": "admin operator", "SiteService/VerifyAudit": "admin", "SiteService/Ban": "admin operator", "SiteService/Unban": "admin operator", "SiteService/ListBans": "admin operator",
	"SiteService/ListSites": "admin submit reader operator", "SiteService/GetSite": "admin submit reader operator",

	"PilotService/Register":        "admin token",
	"PilotService/ClaimMastership": "pilot", "PilotService/Sync": "pilot", "PilotService/Pull": "pilot",
	"PilotService/DeliverOutcomes": "pilot", "PilotService/SendFile": "pilot", "PilotService/Leave": "pilot", "PilotService/ReportUnreachable": "pilot",
	"PilotService/ListPeers": "pilot", "PilotService/ReportTrial": "pilot",
	"PilotService/ListPilots": "admin submit reader operator", "PilotService/GetPilot": "admin submit reader operator", "PilotService/DrainPilot": "admin operator",
}

func serviceDescriptions() []grpc.ServiceDesc {
	return []grpc.ServiceDesc{pb.TaskService_ServiceDesc, pb.FileService_ServiceDesc, pb.SiteService_ServiceDesc, pb.PilotService_ServiceDesc}
}

// call makes a call with an empty message, unary or streaming.
func call(ctx context.Context, c *client, method string, stream bool) error {
	if !stream {
		return c.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{})
	}
	s, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err == nil {
		err = s.SendMsg(&emptypb.Empty{})
	}
	if err == nil {
		err = s.CloseSend()
	}
	if err == nil {
		err = s.RecvMsg(&emptypb.Empty{})
	}
	return err
}

func TestEveryRoleAgainstEveryMethod(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	callers := map[string]*client{
		"admin": q.admin(), "submit": q.submit(), "token": q.dial(q.access("pilot-siteA").Token, nil),
		"pilot": q.join("siteA").client, "stranger": q.dial("", nil), "factory": q.with("factory", "siteA"), "operator": q.with("operator", "siteA"), "reader": q.with("read-only", ""),
	}
	for _, service := range serviceDescriptions() {
		streams := make(map[string]bool)
		for _, s := range service.Streams {
			streams[s.StreamName] = true
		}
		for _, m := range service.Methods {
			streams[m.MethodName] = false
		}
		for name, stream := range streams {
			short := strings.TrimPrefix(service.ServiceName, "pilotage.v1.")
			allowed, listed := rights[short+"/"+name]
			if !listed {
				allowed, listed = rights[short+"/*"]
			}
			method := "/" + service.ServiceName + "/" + name
			if !listed || !server.Permitted(method) {
				t.Errorf("%s is in no table of rights", method)
				continue
			}
			for who, c := range callers {
				err := call(q.ctx, c, method, stream)
				reason, _, _ := taskpb.Refusal(err)
				barred := reason == "FORBIDDEN" && !strings.Contains(err.Error(), "cannot act for site") || reason == "NO_ACCESS"
				if may := strings.Contains(allowed, who); may == barred {
					t.Errorf("%s calls %s: allowed %v, got %v", who, method, may, err)
				}
				if pilots := who == "pilot" || who == "token"; pilots && !barred && !stream && !strings.Contains(status.Convert(err).Message(), "cannot act for site") {
					t.Errorf("%s calls %s without naming its site: %v", who, method, err)
				}
				if who == "stranger" && status.Code(err) != codes.Unauthenticated {
					t.Errorf("a stranger calls %s: %v", method, err)
				}
			}
		}
	}
}

// with connects with a new access of a role.
func (q *queue) with(role, site string) *client {
	q.t.Helper()
	made, err := q.admin().CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: role, Site: site})
	if err != nil {
		q.t.Fatal(err)
	}
	var access identity.AccessFile
	if err := json.Unmarshal(made.GetAccessFile(), &access); err != nil {
		q.t.Fatal(err)
	}
	return q.dial(access.Token, nil)
}

// A factory reads the demand of its site and makes accesses for one pilot each.
func TestWhatAFactoryMay(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	q.addSite("siteB")
	f := q.with("factory", "siteA")
	if _, err := f.GetDemand(q.ctx, &pb.GetDemandRequest{Site: "siteA"}); err != nil {
		t.Error(err)
	}
	if _, err := f.GetDemand(q.ctx, &pb.GetDemandRequest{Site: "siteA", Factory: &pb.FactoryReport{Name: "pabcd", Pending: 3}}); err != nil {
		t.Errorf("a factory's report: %v", err)
	}
	viewer := q.with("read-only", "")
	for range 2 { // what a viewer tells of itself is no factory
		got, err := viewer.GetDemand(q.ctx, &pb.GetDemandRequest{Site: "siteA", Factory: &pb.FactoryReport{Name: "fake"}})
		if err != nil || len(got.GetFactories()) != 1 || got.GetFactories()[0].GetPending() != 3 {
			t.Errorf("a viewer is shown %v, %v", got.GetFactories(), err)
		}
	}
	_, err := f.GetDemand(q.ctx, &pb.GetDemandRequest{Site: "siteA", Factory: &pb.FactoryReport{Name: "pfull", Reason: strings.Repeat("x", 100_000)}})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID")
	_, err = f.GetDemand(q.ctx, &pb.GetDemandRequest{Site: "siteB"})
	wantRefusal(t, err, codes.PermissionDenied, "FORBIDDEN")
	for _, in := range []*pb.CreateAccessRequest{
		{Role: "admin"}, {Role: "factory", Site: "siteA"}, {Role: "submit"}, {Role: "pilot", Site: "siteB", Once: true}, {Role: "pilot", Site: "siteA"},
	} {
		_, err := f.CreateAccess(q.ctx, in)
		wantRefusal(t, err, codes.PermissionDenied, "FORBIDDEN")
	}
	_, err = f.CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "pilot", Site: "siteA", Once: true, ValidFor: durationpb.New(73 * time.Hour)})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID")
	made, err := f.CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "pilot", Site: "siteA", Once: true, Job: "pabcd0000001", Person: "alice", ValidFor: durationpb.New(72 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	var access identity.AccessFile
	if err := json.Unmarshal(made.GetAccessFile(), &access); err != nil {
		t.Fatal(err)
	}
	if access.Person == "alice" {
		t.Error("a factory has another person answer for its pilots")
	}
	register := func() (*pb.RegisterResponse, error) {
		key, err := identity.NewPilotKey()
		if err != nil {
			t.Fatal(err)
		}
		return q.dial(access.Token, nil).Register(q.ctx, registration(t, "siteA", key))
	}
	first, err := register()
	if err != nil {
		t.Fatal(err)
	}
	_, err = register()
	wantRefusal(t, err, codes.PermissionDenied, "REFUSED")
	shown, err := q.admin().GetPilot(q.ctx, &pb.GetPilotRequest{PilotId: first.GetPilotId()})
	if err != nil || shown.GetPilot().GetJob() != "pabcd0000001" {
		t.Errorf("%v, %v", shown, err)
	}
}

// Of three sites one has a factory: it alone is asked for what waits, as far as its
// pilots can run it, while it asks and is not held back.
func TestDemandGoesToFactories(t *testing.T) {
	q := start(t)
	for _, site := range []string{"siteA", "siteB", "siteC"} {
		q.addSite(site)
	}
	const walled, elsewhere, special = `pilot.confinement >= NAMESPACES && pilot.arch == "amd64"`, `pilot.site == "siteA"`, `"himem" in pilot.features`
	var last string
	for i, require := range []string{"", walled, elsewhere, special} {
		w := single(fmt.Sprint("w", i))
		w.Tasks[0].Require = require
		last = q.mustSubmit(w)
	}
	factories := map[string]*client{"siteA": q.with("factory", "siteA"), "siteB": q.with("factory", "siteB"), "siteC": q.with("factory", "siteC")}
	asked := func(site string, report *pb.FactoryReport) map[string]bool {
		t.Helper()
		got, err := factories[site].GetDemand(q.ctx, &pb.GetDemandRequest{Site: site, Factory: report})
		if err != nil {
			t.Fatal(err)
		}
		classes := make(map[string]bool)
		for _, class := range got.GetClasses() {
			classes[class.GetRequire()] = true
		}
		return classes
	}
	report := func(paused string, features ...string) *pb.FactoryReport {
		return &pb.FactoryReport{Name: "pabcd", Paused: paused, Shapes: []*pb.FactoryShape{{
			Name: "job", Resources: &pb.Resources{Cores: 4, MemoryBytes: 8 << 30, DiskBytes: 20 << 30}, Features: features, Arch: "amd64", Os: "linux",
			Lifetime: durationpb.New(time.Hour),
		}}}
	}
	if got := asked("siteC", report("")); !got[""] || !got[walled] {
		t.Errorf("the only factory is asked for %v", got)
	}
	if got := asked("siteB", report("", "himem")); !got[special] {
		t.Errorf("the only factory of pilots with himem is asked for %v", got)
	}
	if got := asked("siteC", report("until noon: the batch system refuses jobs")); got[special] || got[""] || got[walled] {
		t.Errorf("a factory that is held back is asked for %v, which another can do", got)
	}
	if got := asked("siteB", report("", "himem")); !got[special] || !got[""] || !got[walled] {
		t.Errorf("beside one that is held back a factory is asked for %v", got)
	}
	explained, err := q.admin().ExplainTask(q.ctx, &pb.ExplainTaskRequest{TaskId: last + "/only"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"no factory there asks for work", "its factory has 0 jobs pending and 0 running", "failures hold its factory back"} {
		if why := explained.GetSites()[i].GetWhy(); !strings.Contains(why, want) {
			t.Errorf("site %d: %s, want %s", i, why, want)
		}
	}
	if got := asked("siteA", nil); !got[elsewhere] {
		t.Errorf("a program that tells nothing of itself is asked for %v", got)
	}
}

func TestHealthIsOpenAndReflectionIsNot(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	stranger := q.dial("", nil)
	reply, err := healthpb.NewHealthClient(stranger).Check(q.ctx, &healthpb.HealthCheckRequest{})
	if err != nil || reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health for a stranger: %v, %v", reply, err)
	}
	list := func(c *client) error {
		stream, err := reflectionpb.NewServerReflectionClient(c).ServerReflectionInfo(q.ctx)
		if err != nil {
			return err
		}
		ask := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
		if err := stream.Send(ask); err != nil {
			_, err = stream.Recv()
			return err
		}
		answer, err := stream.Recv()
		if err == nil && len(answer.GetListServicesResponse().GetService()) < 6 {
			t.Errorf("services %v", answer)
		}
		return err
	}
	wantRefusal(t, list(stranger), codes.Unauthenticated, "NO_ACCESS")
	if err := list(q.submit()); err != nil {
		t.Error(err)
	}
	// A pilot's stream counts its messages: one each way, and the call.
	if err := list(q.dial(q.access("pilot-siteA").Token, nil)); err != nil {
		t.Error(err)
	}
	q.eventually("stream messages are counted", func() bool {
		site, err := q.submit().GetSite(q.ctx, &pb.GetSiteRequest{Name: "siteA"})
		return err == nil && site.GetSite().GetRequestsByMethod()["ServerReflectionInfo"] == 3
	})
}

// A pilot speaks for its own site only, whatever its request says.
func TestPilotsStayAtTheirSite(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	q.addSite("siteB")
	a, b := q.join("siteA"), q.join("siteB")
	b.introduce()
	request := b.report(0)
	_, err := a.Sync(q.ctx, request)
	wantRefusal(t, err, codes.PermissionDenied, "FORBIDDEN")
	_, err = a.ClaimMastership(q.ctx, &pb.ClaimMastershipRequest{Site: "siteB", Expected: b.term})
	wantRefusal(t, err, codes.PermissionDenied, "FORBIDDEN")
	_, err = a.DeliverOutcomes(q.ctx, &pb.DeliverOutcomesRequest{Site: "siteB"})
	wantRefusal(t, err, codes.PermissionDenied, "FORBIDDEN")
	_, err = a.Leave(q.ctx, &pb.LeaveRequest{Site: "siteB", Last: true})
	wantRefusal(t, err, codes.PermissionDenied, "FORBIDDEN")
	key, err := identity.NewPilotKey()
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.dial(q.access("pilot-siteA").Token, nil).Register(q.ctx, registration(t, "siteB", key))
	wantRefusal(t, err, codes.PermissionDenied, "FORBIDDEN")
	// One that is not master cannot sync, even with the right term.
	worker := q.join("siteB")
	worker.term = b.term
	_, err = worker.Sync(q.ctx, worker.report(0))
	wantRefusal(t, err, codes.FailedPrecondition, taskpb.ReasonStaleTerm)
}

func TestRegistrationNeedsTheKey(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	key, other := pilotKey(t), pilotKey(t)
	c := q.dial(q.access("pilot-siteA").Token, nil)
	for name, spoil := range map[string]func(*pb.RegisterRequest){
		"signed by another key":  func(r *pb.RegisterRequest) { r.Proof = registration(t, "siteA", other).Proof },
		"signed for another":     func(r *pb.RegisterRequest) { r.Proof = registration(t, "siteB", key).Proof },
		"no proof":               func(r *pb.RegisterRequest) { r.Proof = nil },
		"short key":              func(r *pb.RegisterRequest) { r.PublicKey = r.PublicKey[:31] },
		"ended":                  func(r *pb.RegisterRequest) { r.Ends.Seconds = 1 },
		"no time":                func(r *pb.RegisterRequest) { r.Ends.Nanos = -5 },
		"no slots":               func(r *pb.RegisterRequest) { r.Slots = 0 },
		"escape in its host":     func(r *pb.RegisterRequest) { r.Host = "a\x1b[2Jb" },
		"negative memory":        func(r *pb.RegisterRequest) { r.Resources.MemoryBytes = -1 },
		"thousands of addresses": func(r *pb.RegisterRequest) { r.Addresses = make([]string, 5_000) },
	} {
		t.Run(name, func(t *testing.T) {
			request := registration(t, "siteA", key)
			spoil(request)
			_, err := c.Register(q.ctx, request)
			wantRefusal(t, err, codes.InvalidArgument, "INVALID")
		})
	}
	first, err := c.Register(q.ctx, registration(t, "siteA", key))
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Register(q.ctx, registration(t, "siteA", key))
	if err != nil || again.GetPilotId() != first.GetPilotId() {
		t.Errorf("the same key became pilot %s, then %s (%v)", first.GetPilotId(), again.GetPilotId(), err)
	}
}

func pilotKey(t *testing.T) *identity.PilotKey {
	t.Helper()
	key, err := identity.NewPilotKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestTokens(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	admin := q.admin()
	create := func(life time.Duration) (*identity.AccessFile, string) {
		t.Helper()
		reply, err := admin.CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "submit", Label: "wms", ValidFor: durationpb.New(life)})
		if err != nil {
			t.Fatal(err)
		}
		var file identity.AccessFile
		if err := json.Unmarshal(reply.GetAccessFile(), &file); err != nil {
			t.Fatal(err)
		}
		if file.Queue[0] != q.server.Addresses().GRPC || file.Role != "submit" || file.CAPEM != string(q.caPEM()) {
			t.Errorf("access file %v", file)
		}
		return &file, reply.GetId()
	}
	list := func(token string) error {
		_, err := q.dial(token, nil).ListWorkflows(q.ctx, &pb.ListWorkflowsRequest{})
		return err
	}

	lasting, id := create(time.Hour)
	if err := list(lasting.Token); err != nil {
		t.Fatal(err)
	}
	watching, err := q.dial(lasting.Token, nil).WatchWorkflow(q.ctx, &pb.WatchWorkflowRequest{Workflow: q.mustSubmit(single("watched"))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watching.Recv(); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RevokeAccess(q.ctx, &pb.RevokeAccessRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, list(lasting.Token), codes.Unauthenticated, "ACCESS_REVOKED")
	_, err = watching.Recv()
	wantRefusal(t, err, codes.Unauthenticated, "ACCESS_REVOKED")
	listed, err := admin.ListAccess(q.ctx, &pb.ListAccessRequest{})
	if err != nil || len(listed.GetAccesses()) != 4 || !listed.GetAccesses()[3].GetRevoked() || listed.GetAccesses()[3].GetId() != id {
		t.Errorf("listed %v, %v", listed, err)
	}

	short, _ := create(time.Second)
	if err := list(short.Token); err != nil && time.Now().Before(short.Expires) {
		t.Fatal(err)
	}
	q.eventually("the token expires", func() bool { return list(short.Token) != nil })
	wantRefusal(t, list(short.Token), codes.Unauthenticated, "ACCESS_EXPIRED")

	wantRefusal(t, list("nonsense"), codes.Unauthenticated, "TOKEN_MALFORMED")
	foreign, foreignSecret, err := identity.NewToken()
	if err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, list(identity.FormatToken(foreign, foreignSecret)), codes.Unauthenticated, "TOKEN_UNKNOWN")
	known, _, err := identity.ParseToken(q.access("admin").Token)
	if err != nil {
		t.Fatal(err)
	}
	err = list(identity.FormatToken(known, foreignSecret))
	wantRefusal(t, err, codes.Unauthenticated, "TOKEN_UNKNOWN")
	if strings.Contains(err.Error(), foreignSecret) {
		t.Error("the refusal repeats the secret")
	}
	for _, bad := range []*pb.CreateAccessRequest{
		{Role: "root"}, {Role: "pilot"}, {Role: "submit", Site: "siteA"}, {Role: "admin", ValidFor: durationpb.New(-1)},
		{Role: "admin", Label: "a\nb"}, {Role: "admin", ValidFor: &durationpb.Duration{Seconds: 1 << 60}},
	} {
		_, err := admin.CreateAccess(q.ctx, bad)
		wantRefusal(t, err, codes.InvalidArgument, "INVALID")
	}
	_, err = admin.CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "pilot", Site: "nowhere"})
	wantRefusal(t, err, codes.NotFound, "NOT_FOUND")
	_, err = admin.RevokeAccess(q.ctx, &pb.RevokeAccessRequest{Id: "nothing"})
	wantRefusal(t, err, codes.NotFound, "NOT_FOUND")
}

// A revoked pilot is refused at once, on the connection it has, with a reason.
func TestRevokedPilotIsRefused(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	p, other := q.join("siteA"), q.join("siteA")
	p.introduce()
	parked := p.park(q.ctx)
	if _, err := q.admin().RevokeAccess(q.ctx, &pb.RevokeAccessRequest{Id: p.id}); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, q.await(parked).err, codes.PermissionDenied, "MEMBERSHIP_REVOKED")
	_, err := p.Sync(q.ctx, p.report(0))
	wantRefusal(t, err, codes.PermissionDenied, "MEMBERSHIP_REVOKED")
	_, err = q.dial("", p.cert).Sync(q.ctx, p.report(0))
	wantRefusal(t, err, codes.PermissionDenied, "MEMBERSHIP_REVOKED")
	_, err = q.dial(q.access("pilot-siteA").Token, nil).Register(q.ctx, registration(t, "siteA", p.key))
	wantRefusal(t, err, codes.PermissionDenied, "REFUSED")
	claim, err := other.ClaimMastership(q.ctx, &pb.ClaimMastershipRequest{Site: "siteA", Expected: p.term})
	if err != nil || !claim.GetGranted() {
		t.Errorf("the office of a revoked master is not free: %v, %v", claim, err)
	}
	other.term = claim.GetTerm()
	reply, err := other.Sync(q.ctx, other.report(0))
	if err != nil || len(reply.GetDeniedPeers()) != 1 || reply.GetDeniedPeers()[0] != string(p.key.Peer()) {
		t.Errorf("the deny list does not reach the site: %v, %v", reply, err)
	}
}

// A membership of another VO gets no connection.
func TestForeignMembershipIsRefused(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	p := q.join("siteA")
	foreign, err := identity.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	der, err := foreign.IssueMember(identity.Member{
		Site: "siteA", Pilot: task.PilotID(p.id), NotAfter: time.Now().Add(time.Hour),
	}, p.key.Public(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.dial("", &identity.MemberCertificate{DER: der, Key: p.key}).Sync(q.ctx, p.report(0))
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a foreign membership: %v", err)
	}
	// Its neighbour's certificate with the own key fails as well.
	other := q.join("siteA")
	_, err = q.dial("", &identity.MemberCertificate{DER: p.cert.DER, Key: other.key}).Sync(q.ctx, p.report(0))
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a certificate of another key: %v", err)
	}
}
