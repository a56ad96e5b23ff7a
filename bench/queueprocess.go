package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/dial"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// Setup is what every bench needs of its caller.
type Setup struct {
	// Program is the path of the program under test, for queue and pilots that
	// are processes of their own.
	Program string
	// Folder holds everything that is measured; it should not be on tmpfs. A
	// sub-folder is made there and removed at the end; empty: the system's
	// temporary folder.
	Folder string
	// Profiles, if set, is a folder for the CPU profiles of the processes, and
	// one of this process's memory.
	Profiles string
	// Progress, if set, is told what is being done.
	Progress func(format string, args ...any)
}

// connect opens the queue as a tool does.
func connect(access *identity.AccessFile) (*grpc.ClientConn, error) {
	config, err := identity.QueueClientTLS([]byte(access.CAPEM), "", nil)
	if err != nil {
		return nil, err
	}
	return dial.Queue(access.Queue, config, func() string { return access.Token })
}

func (s Setup) say(format string, args ...any) {
	if s.Progress != nil {
		s.Progress(format, args...)
	}
}

// queueProcess is a task queue that is measured: a process of its own, with
// its database on disk, reached over TCP and TLS.
type queueProcess struct {
	setup  Setup
	folder string // of the whole bench; the queue's is below
	starts int
	*process
	conn  *grpc.ClientConn
	tasks pb.TaskServiceClient
	sites pb.SiteServiceClient
	files pb.FileServiceClient
}

// newQueue makes a folder and starts a queue in it. The caller calls close.
func newQueue(ctx context.Context, setup Setup) (*queueProcess, error) {
	folder, err := os.MkdirTemp(setup.Folder, "pilotage-bench-")
	if err != nil {
		return nil, fmt.Errorf("a folder for the bench: %w", err)
	}
	// Of pilots that root starts, payloads have another account, which passes here.
	if err := os.Chmod(folder, 0o711); err != nil {
		return nil, fmt.Errorf("a folder for the bench: %w", err)
	}
	q := &queueProcess{setup: setup, folder: folder}
	if err := q.start(ctx); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

// start starts the queue on what an earlier one has left, and connects.
func (q *queueProcess) start(ctx context.Context) error {
	q.starts++
	args := []string{"taskqueue", "--data", q.data(), "--listen", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"}
	args = append(args, q.profileFlags(fmt.Sprintf("queue-%d", q.starts))...)
	var err error
	q.process, err = startProcess("the task queue", filepath.Join(q.folder, fmt.Sprintf("queue-%d.log", q.starts)), q.setup.Program, args...)
	if err != nil {
		return err
	}
	if _, err := q.waitReady(ctx); err != nil {
		return err
	}
	access, err := q.access("admin")
	if err != nil {
		return err
	}
	if q.conn, err = connect(access); err != nil {
		return err
	}
	q.tasks, q.sites = pb.NewTaskServiceClient(q.conn), pb.NewSiteServiceClient(q.conn)
	q.files = pb.NewFileServiceClient(q.conn)
	return nil
}

// profileFlags are the flags that make a process write its CPU profile.
func (q *queueProcess) profileFlags(name string) []string {
	if q.setup.Profiles == "" {
		return nil
	}
	return []string{"--cpu-profile", filepath.Join(q.setup.Profiles, name+".pprof")}
}

// profile writes the CPU profile of this process until the function returned
// is called.
func (s Setup) profile(name string) (stop func(), err error) {
	if s.Profiles == "" {
		return func() {}, nil
	}
	file, err := os.Create(filepath.Join(s.Profiles, name+".pprof"))
	if err != nil {
		return nil, fmt.Errorf("profile this process: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

// profileMemory writes what occupies this process's heap.
func (s Setup) profileMemory(name string) error {
	if s.Profiles == "" {
		return nil
	}
	file, err := os.Create(filepath.Join(s.Profiles, name+".pprof"))
	if err != nil {
		return fmt.Errorf("profile this process's memory: %w", err)
	}
	return errors.Join(pprof.Lookup("heap").WriteTo(file, 0), file.Close())
}

func (q *queueProcess) data() string { return filepath.Join(q.folder, "queue") }

func (q *queueProcess) accessPath(who string) string {
	return filepath.Join(q.data(), "access", who+".json")
}

func (q *queueProcess) access(who string) (*identity.AccessFile, error) {
	return identity.ReadAccessFile(q.accessPath(who))
}

// addSite adds a site without storage element, unless one is given.
func (q *queueProcess) addSite(ctx context.Context, settings *pb.SiteSettings) error {
	if settings.Mode == pb.SiteMode_SITE_MODE_UNSPECIFIED {
		settings.Mode = pb.SiteMode_SITE_MODE_DISTRIBUTED
	}
	if _, err := q.sites.AddSite(ctx, &pb.AddSiteRequest{Settings: settings}); err != nil {
		return fmt.Errorf("add site %s: %w", settings.Name, err)
	}
	return nil
}

// stopQueue ends the queue; start may be called again.
func (q *queueProcess) stopQueue() {
	if q.conn != nil {
		_ = q.conn.Close()
		q.conn = nil
	}
	if q.process != nil {
		q.stop()
		q.process = nil
	}
}

// close ends the queue and removes the folder.
func (q *queueProcess) close() {
	q.stopQueue()
	_ = os.RemoveAll(q.folder)
}

// submitBatch is how many tasks one call carries.
const submitBatch = 1000

// submission is a workflow as it is submitted.
type submission struct {
	name    string
	tasks   []*pb.Task
	files   []*pb.File
	outputs []string
}

// submit sends a workflow in batches, each durable before the next one, and
// returns its id.
func (q *queueProcess) submit(ctx context.Context, w submission) (string, error) {
	id := ""
	for part, from := 0, 0; from < len(w.tasks); part, from = part+1, from+submitBatch {
		to := min(len(w.tasks), from+submitBatch)
		request := &pb.SubmitWorkflowRequest{
			IdempotencyKey: w.name, Name: w.name, Part: int32(part), More: to < len(w.tasks), Tasks: w.tasks[from:to],
		}
		if part == 0 {
			request.Files = w.files
		}
		if to == len(w.tasks) {
			request.Outputs = w.outputs
		}
		reply, err := q.tasks.SubmitWorkflow(ctx, request)
		if err != nil {
			return "", fmt.Errorf("submit part %d of %s: %w", part, w.name, err)
		}
		id = reply.GetWorkflowId()
	}
	return id, nil
}

// waitEnded returns when the last outcome of a workflow is durable: the queue
// announces no change before.
// see, if not nil, is shown each state on the way.
func (q *queueProcess) waitEnded(ctx context.Context, workflow string, see func(*pb.Workflow)) (*pb.Workflow, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := q.tasks.WatchWorkflow(ctx, &pb.WatchWorkflowRequest{Workflow: workflow})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", workflow, err)
	}
	said := time.Now()
	for {
		message, err := stream.Recv()
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", workflow, err)
		}
		w := message.GetWorkflow()
		if see != nil {
			see(w)
		}
		if w.GetBlocked()+w.GetReady()+w.GetLeased() == 0 && w.GetState() != pb.WorkflowState_WORKFLOW_STATE_SUBMITTING {
			return w, nil
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			q.setup.say("%d blocked, %d ready, %d leased, %d done", w.GetBlocked(), w.GetReady(), w.GetLeased(), w.GetDone())
		}
	}
}

// listPage is how many tasks one call lists.
const listPage = 1000

// each shows every task of a workflow with its attempts.
func (q *queueProcess) each(ctx context.Context, workflow string, show func(*pb.TaskInfo)) error {
	token := ""
	for {
		reply, err := q.tasks.ListTasks(ctx, &pb.ListTasksRequest{Workflow: workflow, Full: true, PageSize: listPage, PageToken: token})
		if err != nil {
			return fmt.Errorf("list the tasks of %s: %w", workflow, err)
		}
		for _, info := range reply.GetTasks() {
			show(info)
		}
		if token = reply.GetNextPageToken(); token == "" {
			return nil
		}
	}
}

// smallTask is a task of a bench.
func smallTask(id string, argv ...string) *pb.Task {
	need := &pb.Resources{Cores: 1, MemoryBytes: 16 << 20, DiskBytes: 1 << 20}
	return &pb.Task{Id: id, Argv: argv, Resources: need, Walltime: durationpb.New(time.Hour), Retries: 3}
}
