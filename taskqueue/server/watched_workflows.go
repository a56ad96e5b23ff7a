package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// watches wakes those who watch a workflow, or whatever else has a name.
type watches struct {
	mutex sync.Mutex
	of    map[string]map[chan struct{}]struct{}
}

func (w *watches) begin(workflow string) chan struct{} {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.of == nil {
		w.of = make(map[string]map[chan struct{}]struct{})
	}
	if w.of[workflow] == nil {
		w.of[workflow] = make(map[chan struct{}]struct{})
	}
	wake := make(chan struct{}, 1)
	w.of[workflow][wake] = struct{}{}
	return wake
}

func (w *watches) end(workflow string, wake chan struct{}) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.of[workflow], wake)
	if len(w.of[workflow]) == 0 {
		delete(w.of, workflow)
	}
}

func (w *watches) changed(workflow string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	signal(w.of[workflow])
}

func (w *watches) all() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, wakes := range w.of {
		signal(wakes)
	}
}

func signal(wakes map[chan struct{}]struct{}) {
	for watcher := range wakes {
		wake(watcher)
	}
}

// woken waits until a watcher is woken; an error ends its stream.
func (s *Server) woken(ctx context.Context, wake <-chan struct{}) error {
	select {
	case <-wake:
		return nil
	case <-s.stopping:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WatchWorkflow sends a workflow now and after each change, until it is over.
func (h *taskHandlers) WatchWorkflow(request *pb.WatchWorkflowRequest, stream grpc.ServerStreamingServer[pb.WatchWorkflowResponse]) error {
	ctx := stream.Context()
	var id task.WorkflowID
	if err := h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
		w, err := callerOf(ctx).workflow(t, request.GetWorkflow())
		id = w.ID
		return err
	}); err != nil {
		return err
	}
	wake := h.server.watches.begin(string(id))
	defer h.server.watches.end(string(id), wake)
	for {
		if err := h.server.access.recheck(callerOf(ctx), time.Now()); err != nil {
			return err
		}
		var w taskqueue.Workflow
		var described *pb.Workflow
		if err := h.server.turns.view(ctx, func(t *taskqueue.Turn) error {
			w = taskqueue.Read(callerOf(ctx).workflow(t, string(id)))
			described = describedWorkflow(t, w)
			return nil
		}); err != nil {
			return err
		}
		if err := stream.Send(&pb.WatchWorkflowResponse{Workflow: described}); err != nil || w.Over() {
			return err
		}
		if err := pause(ctx, h.server.stopping, h.server.config.Timing.WatchPause); err != nil {
			return err
		}
		if err := h.server.woken(ctx, wake); err != nil {
			return err
		}
	}
}
