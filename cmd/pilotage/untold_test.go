package main

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// token goes with every call.
type token string

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}
func (token) RequireTransportSecurity() bool { return true }

// calls connects to a queue with an access file, or as a member of a site.
func calls(t *testing.T, queue *server.Server, access string, member *identity.MemberCertificate) *grpc.ClientConn {
	t.Helper()
	file, err := identity.ReadAccessFile(access)
	if err != nil {
		t.Fatal(err)
	}
	config, err := identity.QueueClientTLS([]byte(file.CAPEM), "", member)
	if err != nil {
		t.Fatal(err)
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))}
	if member == nil {
		options = append(options, grpc.WithPerRPCCredentials(token(file.Token)))
	}
	conn, err := grpc.NewClient("passthrough:///"+queue.Addresses().GRPC, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A copy that nobody told is found by its name, and deleted, on a WebDAV server and in
// a folder; the winner's and what is no attempt's stay.
func TestUntoldCopiesAreDeletedFromEachKindOfElement(t *testing.T) {
	_, urls := elements(t)
	for kind, url := range urls {
		t.Run(kind, func(t *testing.T) {
			element, untold, others := leaveUntoldCopies(t, url)
			for over := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
				if _, err := element.Head(t.Context(), untold); errors.Is(err, storage.ErrNotFound) {
					break
				}
				if time.Now().After(over) {
					t.Fatal("it is still there")
				}
			}
			for _, name := range others {
				if _, err := element.Head(t.Context(), name); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// leaveUntoldCopies runs a queue and a site of it that has run a task at two pilots,
// one of which the queue does not hear of and dies.
func leaveUntoldCopies(t *testing.T, url string) (element storage.Element, untold string, others []string) {
	dir := filepath.Join(t.TempDir(), "queue")
	rules := taskqueue.DefaultConfig()
	rules.Lease.TTL, rules.Site.Pilot.AbsentAfter, rules.Workflow.TickEvery = 200*time.Millisecond, 100*time.Millisecond, 10*time.Millisecond
	client := storage.NewClient(storage.Options{})
	t.Cleanup(client.Close)
	ready := make(chan struct{})
	queue, err := server.New(server.Config{
		DataDir: dir, Store: server.StoreMemory, Listen: "127.0.0.1:0", ListenHTTP: "127.0.0.1:0", Rules: rules, Log: slog.New(slog.DiscardHandler),
		Timing: server.Timing{ClockTick: 5 * time.Millisecond, Persist: 20 * time.Millisecond, Garbage: 10 * time.Millisecond},
		Ready:  func(string, string) { close(ready) }, Deleter: storageOf{client}, Finder: storageOf{client},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-ready
	if _, err := pb.NewSiteServiceClient(calls(t, queue, queue.AdminAccess(), nil)).AddSite(ctx, &pb.AddSiteRequest{
		Settings: &pb.SiteSettings{Name: "A", StorageUrl: url},
	}); err != nil {
		t.Fatal(err)
	}
	key, err := identity.NewPilotKey()
	if err != nil {
		t.Fatal(err)
	}
	proof, err := key.Signer().Sign(nil, []byte("pilotage register A"), crypto.Hash(0))
	if err != nil {
		t.Fatal(err)
	}
	access := filepath.Join(dir, "access", "pilot-A.json")
	member, err := pb.NewPilotServiceClient(calls(t, queue, access, nil)).Register(ctx, &pb.RegisterRequest{
		Site: "A", PublicKey: key.Public(), Proof: proof, Addresses: []string{"/ip4/127.0.0.1/tcp/1"}, DataUrl: "https://127.0.0.1:2", Host: "node",
		Resources: &pb.Resources{Cores: 1, MemoryBytes: 1 << 30, DiskBytes: 1 << 30}, Slots: 1, Ends: timestamppb.New(time.Now().Add(time.Hour)),
	})
	if err != nil {
		t.Fatal(err)
	}
	submitted, err := pb.NewTaskServiceClient(calls(t, queue, queue.SubmitAccess(), nil)).SubmitWorkflow(ctx, &pb.SubmitWorkflowRequest{
		IdempotencyKey: "k", Name: "w", Tasks: []*pb.Task{taskpb.Task(task.Task{
			ID: "/t[1]", Argv: []string{"true"}, Resources: task.Resources{Cores: 1, Memory: task.MiB, Disk: task.MiB}, Walltime: time.Minute,
			Outputs: []task.Output{{LFN: "deep/x", Name: "x"}},
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	pilot := pb.NewPilotServiceClient(calls(t, queue, access, &identity.MemberCertificate{DER: member.GetMembershipCertificate(), Key: key}))
	sync := &pb.SyncRequest{Site: "A", Term: member.GetTerm(), Capacity: &pb.Capacity{Pilots: 1, Slots: 1, FreeSlots: 1}}
	reply, err := pilot.Sync(ctx, sync)
	if err != nil || len(reply.GetLeases()) != 1 {
		t.Fatalf("leases %v, %v", reply.GetLeases(), err)
	}
	id := task.NewID(task.WorkflowID(submitted.GetWorkflowId()), "t[1]")
	winner := task.AttemptID{Task: id, Generation: 1, Lease: task.LeaseID(reply.GetLeases()[0].GetId()), Pilot: task.PilotID(member.GetPilotId()), Counter: 1}
	loser := task.AttemptID{Task: id, Generation: 1, Lease: winner.Lease, Pilot: "p-aaaaaaaa", Counter: 4}
	x := task.Qualify(id.Workflow(), "deep/x")
	if element, err = client.Element(url); err != nil {
		t.Fatal(err)
	}
	folder := task.TaskFolder(id) + "/"
	untold, others = task.StorageName(loser, x), []string{task.StorageName(winner, x), folder + "README", folder + "another-1/deep/x"}
	for _, name := range append(others, untold) {
		if _, err := element.Put(ctx, name, 1, bytes.NewReader([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	sync.Leases = []uint64{reply.GetLeases()[0].GetId()}
	sync.Outcomes = []*pb.Outcome{taskpb.Outcome(task.Outcome{
		Attempt: winner, Number: 1, OK: true, Outputs: []task.Produced{{LFN: x, Size: 1, Digest: task.Digest{1}, URL: url + "/" + task.StorageName(winner, x)}},
	})}
	if reply, err = pilot.Sync(ctx, sync); err != nil || len(reply.GetAcks()) != 1 {
		t.Fatalf("acknowledged %v, %v", reply.GetAcks(), err)
	}
	return element, untold, others
}
