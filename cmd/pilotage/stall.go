package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// stallAfter is how long a workflow may have ready tasks and none at a site
// before whoever waits for it is told how to find out why: hand-outs take
// seconds.
const stallAfter = 10 * time.Second

// stallHint tells once that nobody takes a workflow's tasks.
type stallHint struct {
	tell  func(workflow string)
	once  sync.Once
	timer *time.Timer // runs while there are ready tasks and none at a site
}

// newStallHint makes a hint that has not been given yet; end stops it.
func (a *app) newStallHint(ctx context.Context, c *clients, shown *watchBar) *stallHint {
	return &stallHint{tell: func(workflow string) {
		name := workflow + "/TASK"
		list, err := c.tasks.ListTasks(ctx, &pb.ListTasksRequest{
			Workflow: workflow, PageSize: 1, States: []pb.TaskState{pb.TaskState_TASK_STATE_READY},
		})
		if err == nil && len(list.GetTasks()) > 0 {
			name = list.GetTasks()[0].GetTask().GetId()
		}
		text := fmt.Sprintf("no site has taken a task for %s; to see why: pilotage task explain '%s'\n", stallAfter, name)
		if a.output == "table" && isTerminal(a.stderr) {
			_, _ = shown.progress.Write([]byte(text)) // above the bar
			return
		}
		_, _ = fmt.Fprint(a.stderr, text)
	}}
}

// heard takes in what the queue tells of the workflow.
func (h *stallHint) heard(w *pb.Workflow) {
	stuck := w.GetReady() > 0 && w.GetLeased() == 0 && !over(w)
	switch {
	case !stuck:
		h.end()
	case h.timer == nil:
		id := w.GetId()
		h.timer = time.AfterFunc(stallAfter, func() { h.once.Do(func() { h.tell(id) }) })
	}
}

func (h *stallHint) end() {
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
}
