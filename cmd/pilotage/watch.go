package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

const (
	// watchRetries is how often a broken watch is begun again without progress;
	// with a second between them, that is longer than a queue's restart.
	watchRetries = 60
	watchPause   = time.Second
	// accessExpired is why the queue refuses a token that is over: a later one may be
	// there.
	accessExpired = "ACCESS_EXPIRED"
)

// watch follows a workflow to its end and returns its last state. A queue that
// does not answer is waited for, whether it goes while the watch runs or is
// not there when it begins.
func (a *app) watch(ctx context.Context, c *clients, id string) (*pb.Workflow, error) {
	shown := &watchBar{progress: a.out.progress()}
	defer shown.end()
	stalled := a.out.newStallHint(ctx, c, shown)
	defer stalled.end()
	var last *pb.Workflow
	for failures := 0; ; failures++ {
		before := last
		err := follow(ctx, c, id, func(w *pb.Workflow) {
			last = w
			shown.set(w)
			stalled.heard(w)
		})
		if last != before {
			failures = 0
		}
		if over(last) {
			return last, nil
		}
		if !unreachable(err) && !(c.bearer && refusal(err) == accessExpired) || failures >= watchRetries {
			return last, err
		}
		if failures == 0 {
			a.out.note("waiting for the task queue: %s\n", reason(err))
		}
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// follow reports what the queue tells about a workflow until the stream ends.
func follow(ctx context.Context, c *clients, id string, heard func(*pb.Workflow)) error {
	stream, err := c.tasks.WatchWorkflow(ctx, &pb.WatchWorkflowRequest{Workflow: id})
	if err != nil {
		return err
	}
	for {
		reply, err := stream.Recv()
		if err != nil {
			return err
		}
		heard(reply.GetWorkflow())
	}
}

// watchBar is the progress bar of a watch, once its length is known.
type watchBar struct {
	progress *mpb.Progress
	bar      *mpb.Bar
	counts   atomic.Pointer[string] // of tasks that are not done, shown behind the bar
}

func (b *watchBar) set(w *pb.Workflow) {
	counts := fmt.Sprintf("%d leased, %d ready, %d blocked, %d failed ",
		w.GetLeased(), w.GetReady(), w.GetBlocked(), w.GetFailed()+w.GetQuarantined())
	b.counts.Store(&counts)
	if b.bar == nil {
		b.bar = b.progress.AddBar(int64(workflowTotal(w)),
			mpb.PrependDecorators(decor.Name(w.GetName()+" ")),
			mpb.AppendDecorators(decor.CountersNoUnit("%d / %d "),
				decor.Any(func(decor.Statistics) string { return *b.counts.Load() }), decor.Elapsed(decor.ET_STYLE_GO)))
	}
	b.bar.SetCurrent(int64(w.GetDone()))
}

func (b *watchBar) end() {
	if b.bar != nil {
		b.bar.Abort(false)
	}
	b.progress.Wait()
}

func over(w *pb.Workflow) bool {
	switch w.GetState() {
	case pb.WorkflowState_WORKFLOW_STATE_DONE, pb.WorkflowState_WORKFLOW_STATE_FAILED, pb.WorkflowState_WORKFLOW_STATE_CANCELLED:
		return true
	default:
		return false
	}
}
