package server_test

import (
	"context"
	"crypto"
	"flag"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
)

func TestMain(m *testing.M) {
	if flag.Parse(); *floodRate >= 0 {
		if err := flood(); err != nil {
			log.Fatal(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests; none takes nearly as long.
const patience = 20 * time.Second

// queue is a server that runs, with what tests need of it.
type queue struct {
	t      testing.TB
	ctx    context.Context
	dir    string
	server *server.Server
	end    context.CancelFunc
	ended  chan error
}

type option func(*server.Config)

func onSQLite(c *server.Config) { c.Store = server.StoreSQLite }

// start runs a queue in a folder of its own, in memory unless told otherwise.
func start(t testing.TB, options ...option) *queue {
	t.Helper()
	return startIn(t, t.TempDir(), nil, options...)
}

func startIn(t testing.TB, dir string, before func(*server.Server), options ...option) *queue {
	t.Helper()
	ready := make(chan struct{})
	config := server.Config{
		DataDir: dir, Store: server.StoreMemory, Listen: "127.0.0.1:0", ListenHTTP: "127.0.0.1:0",
		Log:    slog.New(slog.NewTextHandler(io.Discard, nil)),
		Ready:  func(string, string) { close(ready) },
		Timing: server.Timing{ClockTick: 10 * time.Millisecond, Persist: 20 * time.Millisecond, Holds: serving.Holds{Sync: patience}},
	}
	for _, apply := range options {
		apply(&config)
	}
	s, err := server.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if before != nil {
		before(s)
	}
	q := &queue{t: t, dir: dir, server: s, ended: make(chan error, 1)}
	q.ctx, q.end = context.WithCancel(t.Context())
	go func() { q.ended <- s.Run(q.ctx) }()
	select {
	case <-ready:
	case err := <-q.ended:
		t.Fatalf("the server ended: %v", err)
	}
	t.Cleanup(func() { q.stop() })
	return q
}

func (q *queue) stop() {
	q.end()
	if q.ended == nil {
		return
	}
	if err := <-q.ended; err != nil {
		q.t.Errorf("the server ended badly: %v", err)
	}
	q.ended = nil
}

func (q *queue) access(name string) *identity.AccessFile {
	q.t.Helper()
	file, err := identity.ReadAccessFile(filepath.Join(q.dir, "access", name+".json"))
	if err != nil {
		q.t.Fatal(err)
	}
	return file
}

// bearer is a token as credentials of every call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}
func (bearer) RequireTransportSecurity() bool { return true }

// client is a connection with every service.
type client struct {
	*grpc.ClientConn
	pb.TaskServiceClient
	pb.FileServiceClient
	pb.SiteServiceClient
	pb.PilotServiceClient
}

// dial connects with a token, a membership certificate, both, or neither.
func (q *queue) dial(token string, member *identity.MemberCertificate) *client {
	q.t.Helper()
	return dialWith(q.t, q.server.Addresses().GRPC, q.caPEM(), token, member)
}

func dialWith(t testing.TB, address string, caPEM []byte, token string, member *identity.MemberCertificate) *client {
	t.Helper()
	c, err := connect(address, caPEM, token, member)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func connect(address string, caPEM []byte, token string, member *identity.MemberCertificate, more ...grpc.DialOption) (*client, error) {
	config, err := identity.QueueClientTLS(caPEM, "", member)
	if err != nil {
		return nil, err
	}
	options := slices.Concat(more, []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))})
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, err
	}
	return &client{conn, pb.NewTaskServiceClient(conn), pb.NewFileServiceClient(conn), pb.NewSiteServiceClient(conn), pb.NewPilotServiceClient(conn)}, nil
}

func (q *queue) caPEM() []byte {
	q.t.Helper()
	text, err := os.ReadFile(filepath.Join(q.dir, "ca", "ca.pem"))
	if err != nil {
		q.t.Fatal(err)
	}
	return text
}

func (q *queue) admin() *client  { return q.dial(q.access("admin").Token, nil) }
func (q *queue) submit() *client { return q.dial(q.access("submit").Token, nil) }

// get fetches a page of the HTTPS server.
func (q *queue) get(path string) (int, string) {
	q.t.Helper()
	config, err := identity.QueueClientTLS(q.caPEM(), "", nil)
	if err != nil {
		q.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	reply, err := (&http.Client{Transport: transport}).Get("https://" + q.server.Addresses().HTTP + path)
	if err != nil {
		q.t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		q.t.Fatal(err)
	}
	return reply.StatusCode, string(body)
}

// addSite adds a site with a storage element.
func (q *queue) addSite(name string) {
	q.t.Helper()
	_, err := q.admin().AddSite(q.ctx, &pb.AddSiteRequest{Settings: &pb.SiteSettings{Name: name, StorageUrl: "file:///se/" + name, RemoteRead: true}})
	if err != nil {
		q.t.Fatal(err)
	}
}

// pilot is a pilot played by a test.
type pilot struct {
	*client
	q    *queue
	site string
	key  *identity.PilotKey
	cert *identity.MemberCertificate
	id   string
	term *pb.Term
}

func registration(t testing.TB, site string, key *identity.PilotKey) *pb.RegisterRequest {
	t.Helper()
	proof, err := key.Signer().Sign(nil, []byte("pilotage register "+site), crypto.Hash(0))
	if err != nil {
		t.Fatal(err)
	}
	return &pb.RegisterRequest{
		Site: site, PublicKey: key.Public(), Proof: proof, Addresses: []string{"/ip4/127.0.0.1/tcp/1"}, DataUrl: "https://127.0.0.1:2",
		Host: "node", BatchJob: "slurm:77", Resources: &pb.Resources{Cores: 2, MemoryBytes: 1 << 30, DiskBytes: 1 << 30}, Slots: 2, Version: "test",
		Ends: timestamppb.New(time.Now().Add(time.Hour)),
	}
}

// join registers a pilot with its site's token.
func (q *queue) join(site string) *pilot {
	q.t.Helper()
	key, err := identity.NewPilotKey()
	if err != nil {
		q.t.Fatal(err)
	}
	return q.joinAs(site, key)
}

func (q *queue) joinAs(site string, key *identity.PilotKey) *pilot {
	q.t.Helper()
	reply, err := q.dial(q.access("pilot-"+site).Token, nil).Register(q.ctx, registration(q.t, site, key))
	if err != nil {
		q.t.Fatal(err)
	}
	p := &pilot{q: q, site: site, key: key, id: reply.GetPilotId(), term: reply.GetTerm()}
	p.cert = &identity.MemberCertificate{DER: reply.GetMembershipCertificate(), Key: key}
	p.client = q.dial("", p.cert)
	return p
}

// report is a Sync of the pilot as master, to be filled in further.
func (p *pilot) report(hold time.Duration, held ...*pb.Lease) *pb.SyncRequest {
	request := &pb.SyncRequest{
		Site: p.site, Term: p.term, Hold: durationpb.New(hold),
		Capacity: &pb.Capacity{Pilots: 1, Slots: 2, FreeSlots: 2},
	}
	for _, lease := range held {
		request.Leases = append(request.Leases, lease.GetId())
	}
	return request
}

// introduce makes the first Sync of a term, which is answered at once.
func (p *pilot) introduce() {
	p.q.t.Helper()
	if _, err := p.Sync(p.q.ctx, p.report(0)); err != nil {
		p.q.t.Fatal(err)
	}
}

// park sends an empty Sync and waits until the queue has parked it.
func (p *pilot) park(ctx context.Context, held ...*pb.Lease) <-chan synced {
	p.q.t.Helper()
	answer := make(chan synced, 1)
	go func() {
		reply, err := p.Sync(ctx, p.report(patience, held...))
		answer <- synced{reply, err}
	}()
	p.q.eventually("the Sync is parked", func() bool { return p.q.server.Parked(task.Site(p.site)) })
	return answer
}

type synced struct {
	reply *pb.SyncResponse
	err   error
}

func (q *queue) await(answer <-chan synced) synced {
	q.t.Helper()
	select {
	case s := <-answer:
		return s
	case <-time.After(patience):
		q.t.Fatal("no answer came")
		return synced{}
	}
}

// outcome is a success of a leased task.
func (p *pilot) outcome(lease *pb.Lease, i int) *pb.Outcome {
	leased := lease.GetTasks()[i]
	out := task.Outcome{
		Attempt: task.AttemptID{
			Task: task.ID(leased.GetTask().GetId()), Generation: leased.GetGeneration(), Lease: task.LeaseID(lease.GetId()),
			Pilot: task.PilotID(p.id), Counter: uint64(i) + 1,
		},
		Number: int(leased.GetNumber()), Site: task.Site(p.site), OK: true, Run: time.Second, Delay: 3 * time.Millisecond,
		Stdout: []byte("hello\n"), Stderr: []byte("world\n"), Started: time.Now().Add(-time.Second), Process: 4711,
	}
	for _, o := range leased.GetTask().GetOutputs() {
		out.Outputs = append(out.Outputs, task.Produced{LFN: task.LFN(o.GetLfn()), Size: 5, Digest: task.Digest{1}})
	}
	return taskpb.Outcome(out)
}

// single is a workflow of one task without files.
func single(name string) *pb.SubmitWorkflowRequest {
	return &pb.SubmitWorkflowRequest{IdempotencyKey: "key-" + name, Name: name, Tasks: []*pb.Task{plain("only")}}
}

func plain(name string) *pb.Task {
	return taskpb.Task(task.Task{
		ID: task.ID("/" + name), Argv: []string{"true"}, Resources: task.Resources{Cores: 1, Memory: task.MiB, Disk: task.MiB},
		Retries: 1, Walltime: time.Minute,
	})
}

func (q *queue) mustSubmit(request *pb.SubmitWorkflowRequest) string {
	q.t.Helper()
	reply, err := q.submit().SubmitWorkflow(q.ctx, request)
	if err != nil {
		q.t.Fatal(err)
	}
	return reply.GetWorkflowId()
}

// eventually polls for what no event tells.
func (q *queue) eventually(what string, holds func() bool) {
	q.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for over := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(over) {
			q.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// wantRefusal checks code and reason of an error.
func wantRefusal(t *testing.T, err error, code codes.Code, reason string) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("code %s, want %s (%v)", status.Code(err), code, err)
		return
	}
	if got, _, _ := taskpb.Refusal(err); got != reason {
		t.Errorf("reason %q, want %q (%v)", got, reason, err)
	}
}

// onBoth runs a test on each store.
func onBoth(t *testing.T, test func(t *testing.T, store option)) {
	for _, kind := range []server.StoreKind{server.StoreMemory, server.StoreSQLite} {
		t.Run(string(kind), func(t *testing.T) { test(t, func(c *server.Config) { c.Store = kind }) })
	}
}

// quickRules are rules with short times.
func quickRules(change func(*taskqueue.Config)) option {
	return func(c *server.Config) {
		c.Rules = taskqueue.DefaultConfig()
		change(&c.Rules)
	}
}

type serverConfig = server.Config
