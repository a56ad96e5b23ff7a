// Command manager shows Pilotage as a workflow manager sees it: it submits a
// workflow over gRPC, watches it, and collects the results. It uses nothing
// but the generated client and the access file.
//
//	go run ./examples/manager --access ACCESS.json
package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

func main() {
	access := flag.String("access", os.Getenv("PILOTAGE_ACCESS"), "access file of role submit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := manage(ctx, *access)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func manage(ctx context.Context, path string) error {
	conn, err := connect(path)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	tasks := pb.NewTaskServiceClient(conn)

	submitted, err := tasks.SubmitWorkflow(ctx, workflow())
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	fmt.Printf("submitted %s with %d tasks\n", submitted.GetWorkflowId(), submitted.GetTasks())

	state, err := watch(ctx, tasks, submitted.GetWorkflowId())
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if state != pb.WorkflowState_WORKFLOW_STATE_DONE {
		return fmt.Errorf("the workflow ended as %s", state)
	}
	return collect(ctx, tasks, submitted.GetWorkflowId())
}

// accessFile is what an operator hands out.
type accessFile struct {
	Queue []string `json:"queue"`
	CA    string   `json:"ca_pem"`
	Token string   `json:"token"`
}

func connect(path string) (*grpc.ClientConn, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the access file: %w", err)
	}
	var access accessFile
	if err := json.Unmarshal(data, &access); err != nil {
		return nil, fmt.Errorf("the access file %s: %w", path, err)
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM([]byte(access.CA)) || len(access.Queue) == 0 {
		return nil, fmt.Errorf("the access file %s names no authority or no queue", path)
	}
	return grpc.NewClient("passthrough:///"+access.Queue[0],
		// Every queue's certificate carries this name, wherever it listens.
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			RootCAs: authority, ServerName: "pilotage-queue", MinVersion: tls.VersionTLS13,
		})),
		grpc.WithPerRPCCredentials(token(access.Token)))
}

type token string

// GetRequestMetadata satisfies credentials.PerRPCCredentials.
func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

// RequireTransportSecurity satisfies credentials.PerRPCCredentials.
func (t token) RequireTransportSecurity() bool { return true }

// workflow estimates pi: ten tasks throw darts, one counts.
func workflow() *pb.SubmitWorkflowRequest {
	resources := &pb.Resources{Cores: 1, MemoryBytes: 64 << 20, DiskBytes: 16 << 20}
	walltime := durationpb.New(600_000_000_000)
	request := &pb.SubmitWorkflowRequest{IdempotencyKey: rand.Text(), Name: "pi", Outputs: []string{"pi.txt"}}
	count := &pb.Task{
		Id: "/count", Shell: `cat hits.* | awk '{hits += $1; darts += $2} END {printf "%.2f\n", 4 * hits / darts}' > pi.txt`,
		Outputs:   []*pb.Binding{{Lfn: "pi.txt", Name: "pi.txt"}},
		Resources: resources, Walltime: walltime, Retries: 2,
	}
	for i := range 10 {
		name := fmt.Sprintf("hits.%d", i)
		request.Tasks = append(request.Tasks, &pb.Task{
			Id: fmt.Sprintf("/throw[%d]", i),
			Shell: fmt.Sprintf(`awk 'BEGIN {srand(%d); n = 200000; for (i = 0; i < n; i++) {x = rand(); y = rand(); h += x*x + y*y < 1}; print h, n}' > %s`,
				i+1, name),
			Outputs:   []*pb.Binding{{Lfn: name, Name: name}},
			Resources: resources, Walltime: walltime, Retries: 2,
		})
		count.Inputs = append(count.Inputs, &pb.Binding{Lfn: name, Name: name})
	}
	request.Tasks = append(request.Tasks, count)
	return request
}

func watch(ctx context.Context, tasks pb.TaskServiceClient, id string) (pb.WorkflowState, error) {
	stream, err := tasks.WatchWorkflow(ctx, &pb.WatchWorkflowRequest{Workflow: id})
	if err != nil {
		return 0, err
	}
	var state pb.WorkflowState
	for {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return state, nil
		}
		if err != nil {
			return state, err
		}
		w := reply.GetWorkflow()
		state = w.GetState()
		fmt.Printf("%s: %d done, %d leased, %d ready, %d blocked\n", state, w.GetDone(), w.GetLeased(), w.GetReady(), w.GetBlocked())
	}
}

// collect prints the final outputs. Bytes do not pass through the queue: a
// client reads them where they are stored.
func collect(ctx context.Context, tasks pb.TaskServiceClient, id string) error {
	outputs, err := tasks.ListWorkflowOutputs(ctx, &pb.ListWorkflowOutputsRequest{Workflow: id})
	if err != nil {
		return fmt.Errorf("list the outputs: %w", err)
	}
	for _, file := range outputs.GetFiles() {
		for _, replica := range file.GetReplicas() {
			fmt.Printf("%s is at %s, %s\n", file.GetLfn(), replica.GetSite(), replica.GetUrl())
		}
		if err := show(file); err != nil {
			return err
		}
	}
	return nil
}

// show prints a file that lies on a storage element of this machine.
func show(file *pb.File) error {
	for _, replica := range file.GetReplicas() {
		place, err := url.Parse(replica.GetUrl())
		if err != nil || place.Scheme != "file" {
			continue
		}
		content, err := os.ReadFile(place.Path)
		if err != nil {
			return err
		}
		fmt.Printf("%s", content)
		return nil
	}
	return nil
}
