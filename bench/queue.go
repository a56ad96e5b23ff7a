package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// Queue says how the queue alone is measured.
type Queue struct {
	Setup
	Tasks, Sites, Clients int
	// HandOut is how many tasks a site is handed out at once.
	HandOut int
}

// QueueResult is what `pilotage bench queue` reports.
type QueueResult struct {
	Tasks   int `json:"tasks"`
	Sites   int `json:"sites"`
	Clients int `json:"clients"`
	Batch   int `json:"tasks_per_call"`
	// SubmitPerSecond is how many tasks clients submit per second over gRPC,
	// each call answered when its tasks are on disk.
	SubmitPerSecond float64      `json:"submit_tasks_per_second"`
	SubmitCall      Distribution `json:"submit_call_seconds"`
	// HandOuts is the time of the call by which a site's master gets HandOut
	// tasks: rules, commit with fsync, encoding, way, decoding.
	HandOut  int       `json:"hand_out_tasks"`
	HandOuts []float64 `json:"hand_out_seconds"`
	// HandOutMedian is the median of HandOuts.
	HandOutMedian float64 `json:"hand_out_median_seconds"`
	// RestartSeconds is from the start of the process to its first answer, with
	// all tasks queued.
	RestartSeconds float64 `json:"restart_seconds"`
	// RSS is the queue's resident memory after the submissions, and after the
	// restart and hand-outs; per task, what is more than that of an empty queue.
	EmptyRSS        int64   `json:"empty_rss_bytes"`
	SubmittedRSS    int64   `json:"submitted_rss_bytes"`
	RestartedRSS    int64   `json:"restarted_rss_bytes"`
	RSSPerTask      float64 `json:"rss_bytes_per_task"`
	DatabasePerTask float64 `json:"database_bytes_per_task"`
	QueueCPU        float64 `json:"queue_cpu_seconds"` // of the submissions
	Place
}

// handOutRuns is how many sites are handed out tasks.
const handOutRuns = 3

// Validate tells what of the values makes no sense.
func (b Queue) Validate() error {
	if b.Sites < handOutRuns || b.Clients < 1 || b.HandOut < 4 || b.Tasks < handOutRuns*b.HandOut {
		return fmt.Errorf("%d tasks, %d sites, %d clients, hand-outs of %d: at least %d sites and tasks for as many hand-outs are needed",
			b.Tasks, b.Sites, b.Clients, b.HandOut, handOutRuns)
	}
	return nil
}

// Run measures once.
func (b Queue) Run(ctx context.Context) (QueueResult, error) {
	if err := b.Validate(); err != nil {
		return QueueResult{}, err
	}
	queue, err := newQueue(ctx, b.Setup)
	if err != nil {
		return QueueResult{}, err
	}
	defer queue.close()
	r := QueueResult{Tasks: b.Tasks, Sites: b.Sites, Clients: b.Clients, Batch: submitBatch, HandOut: b.HandOut}
	if r.Place, err = queue.place(); err != nil {
		return QueueResult{}, err
	}
	for i := range b.Sites {
		if err := queue.addSite(ctx, &pb.SiteSettings{Name: overlaySite(i)}); err != nil {
			return QueueResult{}, err
		}
	}
	for _, step := range []func(context.Context, *queueProcess, *QueueResult) error{b.submitAll, b.restart, b.handOut} {
		if err := step(ctx, queue, &r); err != nil {
			return QueueResult{}, err
		}
	}
	r.LoadAfter = load()
	return r, nil
}

// submitAll has every client submit workflows of its own.
func (b Queue) submitAll(ctx context.Context, queue *queueProcess, r *QueueResult) error {
	cpu, empty, err := queue.usage()
	if err != nil {
		return err
	}
	r.EmptyRSS = empty
	b.say("%d tasks are submitted", b.Tasks)
	calls := make([][]time.Duration, b.Clients)
	group, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for client := range b.Clients {
		from, to := b.Tasks*client/b.Clients, b.Tasks*(client+1)/b.Clients
		group.Go(func() (err error) {
			calls[client], err = submitRange(ctx, queue, client, from, to)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.SubmitPerSecond = float64(b.Tasks) / time.Since(began).Seconds()
	r.SubmitCall = Distribute(slices.Concat(calls...))
	after, resident, err := queue.usage()
	if err != nil {
		return err
	}
	r.QueueCPU, r.SubmittedRSS = (after - cpu).Seconds(), resident
	bytes, err := folderSize(queue.data(), "queue.db*")
	r.DatabasePerTask = float64(bytes) / float64(b.Tasks)
	return err
}

// submitRange submits one workflow and returns how long each call took.
func submitRange(ctx context.Context, queue *queueProcess, client, from, to int) ([]time.Duration, error) {
	name := fmt.Sprintf("load-%d", client)
	var calls []time.Duration
	for part := 0; from < to; part++ {
		until := min(to, from+submitBatch)
		request := &pb.SubmitWorkflowRequest{IdempotencyKey: name, Name: name, Part: int32(part), More: until < to}
		for ; from < until; from++ {
			request.Tasks = append(request.Tasks, smallTask(fmt.Sprintf("t[%07d]", from), "/bin/true"))
		}
		began := time.Now()
		if _, err := queue.tasks.SubmitWorkflow(ctx, request); err != nil {
			return nil, fmt.Errorf("submit part %d of %s: %w", part, name, err)
		}
		calls = append(calls, time.Since(began))
	}
	return calls, nil
}

// restart ends the queue and starts it on what it has kept.
func (b Queue) restart(ctx context.Context, queue *queueProcess, r *QueueResult) error {
	b.say("the queue restarts")
	queue.stopQueue()
	began := time.Now()
	if err := queue.start(ctx); err != nil {
		return err
	}
	reply, err := queue.tasks.GetWorkflow(ctx, &pb.GetWorkflowRequest{Workflow: "load-0"})
	if err != nil {
		return fmt.Errorf("the first call after the restart: %w", err)
	}
	r.RestartSeconds = time.Since(began).Seconds()
	if ready := int(reply.GetWorkflow().GetReady()); ready != b.Tasks/b.Clients {
		return fmt.Errorf("after the restart %d tasks of %s are ready, not %d", ready, "load-0", b.Tasks/b.Clients)
	}
	return nil
}

// handOut lets masters of several sites ask for work.
func (b Queue) handOut(ctx context.Context, queue *queueProcess, r *QueueResult) error {
	b.say("sites are handed out %d tasks each", b.HandOut)
	for i := range handOutRuns {
		master, err := queue.newMaster(ctx, overlaySite(i), b.HandOut/4) // the least that a free slot is given is four
		if err != nil {
			return err
		}
		took, tasks, err := master.firstHandOut(ctx)
		master.close()
		if err != nil {
			return err
		}
		if tasks != b.HandOut {
			return fmt.Errorf("%s was handed out %d tasks, not %d", overlaySite(i), tasks, b.HandOut)
		}
		r.HandOuts = append(r.HandOuts, took.Seconds())
	}
	sorted := slices.Sorted(slices.Values(r.HandOuts))
	r.HandOutMedian = sorted[len(sorted)/2]
	_, resident, err := queue.usage()
	r.RestartedRSS = resident
	r.RSSPerTask = float64(max(0, max(r.SubmittedRSS, resident)-r.EmptyRSS)) / float64(b.Tasks)
	return err
}

func folderSize(folder, pattern string) (sum int64, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		sum += info.Size()
	}
	return sum, nil
}
